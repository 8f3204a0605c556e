"""Origin of an error: the line of the user's own code, among the frames of libraries."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tfaip.errors import TfaipError

_OURS = Path(__file__).resolve().parents[1]
_INSTALLED = ("site-packages", "dist-packages")
# Installed packages that are never the user's own; an installed scenario may be.
LIBRARIES = frozenset(
    [
        *("_pytest", "absl", "google", "h5py", "jax", "jaxlib", "keras", "ml_dtypes", "numpy", "onnxruntime"),
        *("opt_einsum", "optree", "pluggy", "rich", "safetensors", "scipy", "sklearn", "tensorboard", "tensorflow"),
        *("tf2onnx", "wrapt", "yaml"),
    ]
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# Keras puts a page around the message of an error in a layer, whose type it keeps: only the text separates them.
_KERAS_CALL = re.compile(r"Exception encountered when calling .*?\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
_KERAS_SHAPES = re.compile(r"Could not automatically infer the output shape .*? Error encountered:\s+", re.DOTALL)


class Place(NamedTuple):
    """A line of the user's code.

    Args:
        file: path of the file.
        line: number of the line.
        function: name of the function; None: unknown.
    """

    file: str
    line: int
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")


def message_of(error: BaseException) -> str:
    """Return the text of an error without terminal styles, and without Keras' page around it."""
    text = str(error)
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        # Its text is the `repr` of its argument: the page of Keras as one escaped line.
        page = error.args[0]
        text = page if _KERAS_CALL.match(page) else text
    if inner := _KERAS_CALL.match(text):
        text = inner[1]
    return without_styles(_KERAS_SHAPES.sub("", text))


def without_styles(text: str) -> str:
    """Return a text without the codes that colour a terminal."""
    return _STYLE.sub("", text)


def find_place(error: BaseException) -> Place | None:
    """Find the last line of the user's own code that led to an error.

    Errors of the toolkit describe what is wrong; of these only the causes are searched.

    Returns:
        the place; None: all frames belong to the toolkit and to libraries.
    """
    for one in _chain(error):
        if isinstance(one, SyntaxError) and one.filename and one.lineno and _is_users(one.filename):
            return Place(one.filename, one.lineno)
        frames = [] if isinstance(one, TfaipError) else _without_delegation(list(_frames(one)))
        # An installed scenario is beside the libraries.
        for accepts in (_is_users, _is_installed):
            found = [place for place in frames if accepts(place.file)]
            if found:
                return found[-1]
    return None


def _without_delegation(frames: list[Place]) -> list[Place]:
    """Remove the frames that only call the same method of a base class of the toolkit.

    A `super().__post_init__()` is not the reason why a value is refused.
    """
    kept = frames[-1:]
    for place, called in zip(reversed(frames[:-1]), reversed(frames), strict=False):
        if place.function != called.function or not Path(called.file).is_relative_to(_OURS):
            kept.insert(0, place)
    return kept


def is_foreseen(error: BaseException) -> bool:
    """Return True if the toolkit raised an error, and not because of one in the user's code."""
    return isinstance(error, TfaipError) and find_place(error) is None


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and current not in seen:
        yield current
        seen.append(current)
        current = current.__cause__


def _frames(error: BaseException) -> Iterator[Place]:
    """Yield the frames that a message quotes (those of a worker process), then the error's own."""
    for file, line, function in _FRAME.findall(str(error)):
        yield Place(file, int(line), function or None)
    for frame in traceback.extract_tb(error.__traceback__):
        yield Place(frame.filename, frame.lineno or 0, frame.name)


def _is_users(file: str) -> bool:
    path = Path(file)
    if not path.is_file() or set(_INSTALLED) & set(path.parts):
        return False
    path = path.resolve()
    return not any(path.is_relative_to(root) for root in (_OURS, *_standard_directories()))


@cache
def _standard_directories() -> list[Path]:
    """Return the directories of Python's own modules, and of the scripts that start our commands."""
    import sysconfig

    return [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "scripts")]


def _is_installed(file: str) -> bool:
    """Return True for a file of an installed package that is no known library."""
    path = Path(file)
    below = [path.parts[index + 1] for index, part in enumerate(path.parts[:-1]) if part in _INSTALLED]
    return bool(below) and below[-1].removesuffix(".py") not in LIBRARIES and not path.is_relative_to(_OURS)
