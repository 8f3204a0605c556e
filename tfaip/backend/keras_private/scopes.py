"""Private names of scopes: variables with other values, without automatic casts, counted before they are created."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.backend.common.stateless_scope import get_stateless_scope
from keras.src.backend.common.variables import AutocastScope

from tfaip.util.typing import Tensor

_creation = threading.RLock()


class RecordingScope(keras.StatelessScope):
    """Scope that also knows which variables were assigned in it; the public one finds the value of a given variable."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.assigned: list[keras.Variable] = []

    def add_update(self, update: tuple[keras.Variable, Tensor]) -> None:
        """Record an assignment; called by `Variable.assign`."""
        self.assigned.append(update[0])
        super().add_update(update)


@contextmanager
def replaced_values(layer: keras.layers.Layer, values: Sequence[tuple[keras.Variable, Tensor]]) -> Iterator[None]:
    """Context in which variables have other values; what is assigned to others, and added as a loss, holds afterwards.

    Args:
        layer: takes over the losses that layers add in the block.
        values: variables and their values in the block.
    """
    outer = get_stateless_scope()
    replaced = {id(variable) for variable, _ in values}
    with RecordingScope(state_mapping=values, collect_losses=True, initialize_variables=False) as scope:
        if outer is not None:
            scope.state_mapping = {**outer.state_mapping, **{i: scope.state_mapping[i] for i in replaced}}
        yield
    for variable in {id(v): v for v in scope.assigned if id(v) not in replaced}.values():
        variable.assign(scope.get_current_value(variable))
    for loss in scope.losses:
        if outer is None:
            layer.add_loss(loss)
        elif outer.collect_losses:
            outer.add_loss(loss)  # the layer that it is from knows it


def without_autocast() -> AutocastScope:
    """Return a context in which variables have their own type, whatever the precision of the calling layer."""
    return AutocastScope(None)


class TooManyElements(BaseException):
    """Signal from the creation of a variable; Keras goes on after an `Exception` where it builds a layer."""


@contextmanager
def limited_variables(most: int) -> Iterator[None]:
    """Context in which variables are created.

    Raises:
        TooManyElements: if they have more elements than `most`, before the first one too many is made.
    """
    elements = 0

    def create(variable: keras.Variable, initializer: Any, shape: Any = None, *args: Any, **kwargs: Any) -> None:
        nonlocal elements
        sizes = shape if isinstance(shape, Iterable) else [shape]
        elements += math.prod(size or 0 for size in sizes)
        if elements > most:
            raise TooManyElements(elements)
        own(variable, initializer, shape, *args, **kwargs)

    with _creation:  # it is one method for all threads
        own = keras.Variable.__init__
        setattr(keras.Variable, "__init__", create)  # noqa: B010 (no method may be assigned)
        try:
            yield
        finally:
            setattr(keras.Variable, "__init__", own)  # noqa: B010
