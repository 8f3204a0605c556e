"""Decoding of images, for `ImageFolder` and for processors of columns of bytes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tfaip.util.reading import MIB, expansion_limit
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Of one encoded image.
IMAGE_BYTES = 1024 * MIB
_IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
# Bytes of a decoded pixel in Pillow, with the copies of `_of_8_bits`; 4 in other modes. The decoder of WebP has two
# canvases and a copy.
_PIXEL_BYTES = {"1": 1, "L": 1, "P": 1, "I;16": 5, "I;16B": 5, "F": 9}
_WEBP_BYTES = 12
# Height and width of the parts that are converted at a time.
_PART = 2048
_pillow_limit = threading.Lock()


def decode_image(content: bytes, channels: int = 3, size: tuple[int, int] | None = None) -> Array:
    """Return the pixels of an encoded image, of its first frame if there are several.

    Args:
        content: of a PNG, JPEG, BMP, GIF, WebP or TIFF file.
        channels: 1 (gray), 3 (red, green, blue) or 4 (with alpha).
        size: height and width to which it is resized; None: as it is.

    Returns:
        `uint8` from 0 to 255, of shape `[height, width, channels]`; of 16 bits per channel the upper 8, of
        floats from 0 to 1 their 255-fold. The image stands upright, as its EXIF data say.

    Raises:
        ValueError: if it is damaged, of another format, or takes more memory than `expansion_limit` says.
    """
    from PIL import Image

    limit = expansion_limit(len(content))
    try:
        with _allowed(limit):
            opened = Image.open(BytesIO(content), formats=_IMAGE_FORMATS)
        with opened as image:
            pixels = image.width * image.height
            if pixels * max(_bytes_of_pixel(image), channels) > limit:
                text = f"{image.width} x {image.height} pixels in {channels} channels"
                raise ValueError(f"its {text} take more than {limit // MIB} MiB")
            # Some formats compare again. So large images are decoded one at a time.
            with nullcontext() if pixels < (Image.MAX_IMAGE_PIXELS or limit) else _allowed(limit):
                image.load()
            return _array(_upright(_of_8_bits(image)), channels, size)
    except Exception as error:  # Pillow raises errors of many classes, some without a text
        reason = shorten_text(str(error).replace("<_io.BytesIO object at", "the bytes at").split(" at 0x")[0], 120)
        raise ValueError(f"no image that can be read: {reason or type(error).__name__}") from error


@contextmanager
def _allowed(pixels: int) -> Iterator[None]:
    """Context in which Pillow accepts so many pixels without a warning; its own limit is one for the process."""
    from PIL import Image

    with _pillow_limit:
        before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, pixels
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def _bytes_of_pixel(image: Any) -> int:
    # The coefficients of a progressive JPEG are in memory until its last pass.
    coefficients = 2 * len(image.getbands()) if "progressive" in image.info else 0
    return _PIXEL_BYTES.get(image.mode, 4) + coefficients + (_WEBP_BYTES if image.format == "WEBP" else 0)


def _of_8_bits(image: Any) -> Any:
    """Return an image of which Pillow would cut the larger numbers with 8 bits; others as they are."""
    import numpy as np
    from PIL import Image

    if image.mode.startswith("I;16"):
        pixels = (np.asarray(image) >> 8).astype(np.uint8)
    elif image.mode == "F":
        values = np.asarray(image)
        if not (values.min() >= 0 and values.max() <= 1):
            raise ValueError(f"its numbers go from {values.min()} to {values.max()}: expected floats from 0 to 1")
        pixels = (values * 255).astype(np.uint8)
    elif image.mode == "I":
        raise ValueError("its pixels have 32 bits: expected 8 or 16 bits, or floats from 0 to 1")
    else:
        return image
    reduced = Image.fromarray(pixels)
    reduced.info = image.info
    return reduced


def _upright(image: Any) -> Any:
    """Return the image turned as its EXIF data say; damaged ones say nothing."""
    from PIL import ImageOps

    try:
        return ImageOps.exif_transpose(image)
    except Exception:
        return image


def _array(image: Any, channels: int, size: tuple[int, int] | None) -> Array:
    """Return the pixels of a decoded image, converted in parts: a copy of a large one would not fit."""
    import numpy as np
    from PIL import Image

    mode = _MODES[channels]
    width, height = image.size
    if size is not None and size != (height, width):
        converted = image if image.mode == mode else image.convert(mode)
        image, (height, width) = converted.resize((size[1], size[0]), Image.Resampling.BILINEAR), size
    pixels = np.empty((height, width, channels), np.uint8)
    for top in range(0, height, _PART):
        for left in range(0, width, _PART):
            part = pixels[top : top + _PART, left : left + _PART]
            box = (left, top, left + part.shape[1], top + part.shape[0])
            part[:] = np.asarray(image.crop(box).convert(mode)).reshape(part.shape)
    return pixels
