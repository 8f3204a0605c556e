"""Samples that are the images of a folder, with one directory per class, or without classes."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.data.pipeline.datagenerator import Generator, unreadable_file
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.params import option
from tfaip.params.fields import FieldAdvice, FieldError
from tfaip.util.reading import MIB, expansion_limit, read_bytes
from tfaip.util.text import shorten, shorten_text

_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff")


class ImageFolder(Generator):
    """Images in a folder: `FOLDER/cat/1.png`, `FOLDER/dog/1.jpg`, or without classes `FOLDER/1.png`.

    A sample is `inputs {"image": uint8 of shape [height, width, channels]}` and, in a directory of a
    class, `targets {"class": [its number]}`. `meta` is the path. The order is that of the paths.
    """

    folder: str = option("", "Folder of images, with one directory per class, or none", common=True)
    classes: list[str] = option(
        [], "Classes in the order of their numbers (empty: the directories of the folder, sorted)", common=True
    )
    channels: int = option(3, "Channels of the images: 1 gray, 3 color, 4 color and alpha", choices=[1, 3, 4])
    image_size: list[int] = option([], "Height and width to which images are resized (empty: as they are)", low=1)

    @cached_property
    def _names(self) -> list[str]:
        """Return the classes."""
        if not self.folder:
            raise FieldAdvice(f"no folder of images is given for the {self.mode}: name one in {{folder}}", "folder")
        if len(self.image_size) not in (0, 2):
            raise FieldError("image_size", self.image_size, "height and width")
        try:
            found = sorted(entry.name for entry in os.scandir(self.folder) if entry.is_dir() and entry.name[0] != ".")
        except (OSError, ValueError) as error:
            raise unreadable_file("image", self.folder, error, "folder") from error
        unknown = [name for name in found if self.classes and name not in self.classes]
        if unknown:
            raise UsageError(
                f"the folder {shorten_text(self.folder, 150)} has the directory {shorten(unknown[0])}, which is not in "
                f"classes: {shorten_text(' '.join(self.classes), 80)}"
            )
        return self.classes or found

    @cached_property
    def _files(self) -> list[str]:
        """Return the paths of the images below the folder."""
        names, root = self._names, Path(self.folder)
        files: list[str] = []
        for name in ["", *names]:
            for directory, below, found in os.walk(root / name):
                inside = os.path.relpath(directory, root)
                if not name:
                    below.clear()
                below[:] = [entry for entry in below if not entry.startswith(".")]
                images = [entry for entry in found if entry.lower().endswith(_SUFFIXES) and entry[0] != "."]
                files += [os.path.normpath(os.path.join(inside, entry)) for entry in images]
        if not files:
            raise UsageError(
                f"the folder {shorten_text(self.folder, 150)} has no image ({' '.join(_SUFFIXES)}), neither itself nor "
                "in directories of classes"
            )
        return sorted(files)

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, index: int) -> Sample:
        file = self._files[index]
        path = os.path.join(self.folder, file)
        try:
            size = (self.image_size[0], self.image_size[1]) if self.image_size else None
            image = decode_image(read_bytes(path, IMAGE_BYTES), self.channels, size)
        except (OSError, ValueError) as error:
            raise unreadable_file("image", path, error) from error
        name, separator, _ = file.partition(os.sep)
        targets = {"class": [self._names.index(name)]} if separator else None
        return Sample(inputs={"image": image}, targets=targets, meta=path)


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
        with _allowed(limit), Image.open(BytesIO(content), formats=_IMAGE_FORMATS) as image:
            if image.width * image.height * max(_bytes_of_pixel(image), channels) > limit:
                text = f"{image.width} x {image.height} pixels in {channels} channels"
                raise ValueError(f"its {text} take more than {limit // MIB} MiB")
            return _array(_upright(_of_8_bits(image)), channels, size)
    except Exception as error:  # Pillow raises errors of many classes, some without a text
        raise ValueError(f"no image that can be read: {shorten_text(str(error) or type(error).__name__)}") from error


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
