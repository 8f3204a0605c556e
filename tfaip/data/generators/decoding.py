"""Decoding of the bytes that files of samples hold: images, arrays, texts, numbers, JSON. Nothing is executed.

Each function takes bytes that anybody may have written, and raises a `ValueError` of one short line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.util.reading import MIB, parse_json, parse_whole_number
from tfaip.util.text import shorten, shorten_text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

# Of one value of a sample: an encoded image, an array, a text.
VALUE_BYTES = 1024 * MIB
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


def decode_npy(content: bytes) -> Array:
    """Return the array of a `.npy` file; one of Python objects is refused, since it is a pickle.

    Raises:
        ValueError: if it is damaged, or its size is not that of its declared shape.
    """
    import numpy as np
    from numpy.lib import format as npy

    stream = BytesIO(content)
    try:
        version = npy.read_magic(stream)
        read_header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        shape, fortran_order, dtype = read_header(stream)
    except Exception as error:  # NumPy parses the header as a literal of Python
        raise ValueError(f"no .npy array that can be read: {shorten_text(str(error), 100)}") from error
    if dtype.hasobject:
        raise ValueError("the .npy array holds Python objects, which are not read")
    begin, count = stream.tell(), math.prod(shape)
    found = len(content) - begin
    if any(length < 0 for length in shape) or dtype.itemsize * count != found:
        raise ValueError(f"the .npy array declares the shape {shorten(shape)} of {dtype}, but {found} bytes follow")
    if count == 0:
        return np.zeros(shape, dtype)
    flat = np.frombuffer(content, dtype, count, begin)
    return flat.reshape(shape, order="F" if fortran_order else "C").copy()


def decode_text(content: bytes) -> str:
    """Return a text in UTF-8.

    Raises:
        ValueError: if it is none.
    """
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError("no text in UTF-8") from error


def decode_class(content: bytes) -> int:
    """Return a number from 0, written in decimal digits.

    Raises:
        ValueError: if it is none.
    """
    text = content[:32].decode("ascii", "replace").strip()
    number = parse_whole_number(text)
    if number is None:
        raise ValueError(f"expected the number of a class, got {shorten(text)}")
    return number


def decode_json(content: bytes) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ValueError: if it is none.
    """
    try:
        return parse_json(decode_text(content), "JSON")
    except UsageError as error:
        raise ValueError(str(error)) from error


def decode_gray(content: bytes) -> Array:
    """Return the pixels of an image as `[height, width, 1]`, see `decode_image`."""
    return decode_image(content, channels=1)


DECODERS: dict[str, Callable[[bytes], Any]] = {
    "image": decode_image,
    "gray": decode_gray,
    "npy": decode_npy,
    "text": decode_text,
    "class": decode_class,
    "json": decode_json,
}
"""Functions by the names that users give them."""


def expected_decoder(name: str) -> str | None:
    """Return in words what is allowed instead of a name, or None if it is the name of a decoder."""
    return None if name in DECODERS else f"one of {', '.join(DECODERS)}"
