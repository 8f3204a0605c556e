"""Errors of losses and metrics with the shapes of the targets and outputs that they were computed from."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from types import TracebackType

from tfaip.backend.active import backend
from tfaip.errors import TfaipError
from tfaip.util.logging import find_place
from tfaip.util.typing import TensorDict

# Name of the operations of a loss or metric in the compiled step: this, and the place in letters that are allowed.
_PART = "part."
_PARTS = re.compile(r"part\.([\w.]+?)(?:_\d+)?/")


class ShapeError(ValueError):
    """Error of a loss or metric whose message names targets and outputs; most often their shapes do not fit."""


@contextlib.contextmanager
def shapes_named(place: str, targets: TensorDict, outputs: TensorDict) -> Iterator[None]:
    """Context in which a loss or metric is computed: its error names targets and outputs with their shapes.

    The libraries name operations and dimensions only.

    Args:
        place: what is computed, as in `MyModel._loss`.
        targets: by name.
        outputs: by name.

    Raises:
        ShapeError: instead of a TypeError or ValueError of a library. (A KeyError means that an output is missing.)
    """
    try:
        with backend.named_part(_PART + re.sub(r"[^\w.]+", "_", place).strip("_")):
            yield
    except (TfaipError, ShapeError):
        raise
    except (TypeError, ValueError) as error:
        if _is_raised_by_user(error):
            raise
        text = f"{error} (in {place}; {shapes_text(targets, outputs)})"
        # A layer of Keras that this passes drops the cause, in which the line of the user's code would be searched.
        raise ShapeError(text).with_traceback(error.__traceback__) from error


class FailuresNamed:
    """Context in which a compiled step runs: an error of an operation names the loss or metric that it belongs to.

    It may be entered again and again; entering it for each batch costs almost nothing.

    Args:
        shapes: of targets and outputs as far as they are known before, see `shapes_text`. Those of the batch are in
            the error of the operation.

    Raises:
        ShapeError: instead of the error of an operation within `shapes_named`.
    """

    def __init__(self, shapes: str) -> None:
        self._shapes = shapes

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not isinstance(error, Exception):
            return
        text = backend.failed_operation(error) or ""
        parts = _PARTS.findall(text)
        if parts:
            reason = text.partition("[[{{node")[0].strip().splitlines()[-1]
            raise ShapeError(f"{reason} (in {parts[-1]}; {self._shapes})") from error


def shapes_text(targets: TensorDict, outputs: TensorDict) -> str:
    """Return the shapes of targets and outputs by name, in words; None is a size that is not known."""
    return f"targets: {_shapes(targets)}; outputs: {_shapes(outputs)}"


def _is_raised_by_user(error: Exception) -> bool:
    """Return True if the line that raised an error is the user's own, who knows best what it means."""
    raised = traceback.extract_tb(error.__traceback__)[-1]
    place = find_place(error)
    return place is not None and (place.file, place.line) == (raised.filename, raised.lineno)


def _shapes(tensors: TensorDict) -> str:
    if not isinstance(tensors, dict):
        return type(tensors).__name__
    texts = []
    for name, tensor in sorted(tensors.items()):
        # JAX has objects of its own for unknown sizes.
        sizes = [size if isinstance(size, int) else None for size in getattr(tensor, "shape", ())]
        texts.append(f"{name} {tuple(sizes)}")
    return ", ".join(texts) or "none"
