"""Decoding of images, for `ImageFolder` and for processors of columns of bytes."""

from __future__ import annotations

import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tfaip.util.reading import MIB
from tfaip.util.text import shorten_text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Of one encoded image.
IMAGE_BYTES = 1024 * MIB
# A scan of A0 with 600 dpi has half of it.
MAX_PIXELS = 1_000_000_000

_IMAGE_FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF")
_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


def decode_image(content: bytes, channels: int = 3, size: tuple[int, int] | None = None) -> Array:
    """Return the pixels of an encoded image, of its first frame if there are several.

    Args:
        content: of a PNG, JPEG, BMP, GIF, WebP or TIFF file.
        channels: 1 (gray), 3 (red, green, blue) or 4 (with alpha).
        size: height and width to which it is resized; None: as it is.

    Returns:
        `uint8` from 0 to 255, of shape `[height, width, channels]`.

    Raises:
        ValueError: if it is damaged, of another format, or larger than `MAX_PIXELS`.
    """
    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(content), formats=_IMAGE_FORMATS) as image:
            if math.prod(image.size) > MAX_PIXELS:
                raise ValueError(f"it has {image.size[0]} x {image.size[1]} pixels, more than {MAX_PIXELS:,}")
            converted = image.convert(_MODES[channels])
            if size is not None and (size[1], size[0]) != image.size:
                converted = converted.resize((size[1], size[0]), Image.Resampling.BILINEAR)
    except Exception as error:  # Pillow raises errors of many classes, some without a text
        reason = shorten_text(str(error).replace("<_io.BytesIO object at", "the bytes at").split(" at 0x")[0], 120)
        raise ValueError(f"no image that can be read: {reason or type(error).__name__}") from error
    return np.asarray(converted).reshape(converted.height, converted.width, channels)
