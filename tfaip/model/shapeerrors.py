"""Errors of losses and metrics with the shapes of the targets and outputs that they were computed from."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator

from tfaip.errors import TfaipError
from tfaip.util.origin import find_place
from tfaip.util.typing import TensorDict


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
        yield
    except (TfaipError, ShapeError):
        raise
    except (TypeError, ValueError) as error:
        if _is_raised_by_user(error):
            raise
        text = f"{error} (in {place}; targets: {_shapes(targets)}; outputs: {_shapes(outputs)})"
        # A layer of Keras that this passes drops the cause, in which the line of the user's code would be searched.
        raise ShapeError(text).with_traceback(error.__traceback__) from error


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
