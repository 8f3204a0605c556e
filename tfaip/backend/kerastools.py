"""Small functions around the public interface of Keras, the same on both backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import keras


def keras_inputs(specs: Mapping[str, tuple[tuple[int | None, ...], str]]) -> dict[str, Any]:
    """Return one `keras.Input` (a KerasTensor with a batch dimension) for each key.

    Args:
        specs: shape without the batch dimension, and dtype, by key.
    """
    return {key: keras.Input(shape=shape, dtype=dtype, name=key) for key, (shape, dtype) in specs.items()}


def value_of(variable: keras.Variable) -> int:
    """Return the value of an integer variable, also of one that has a copy on each of several devices."""
    # Such a variable has no number: `int(variable)` and `convert_to_numpy` fail under MirroredStrategy, arithmetic
    # reads it.
    return int(variable + 0)


@contextmanager
def watched_methods(objects: Sequence[Any], name: str, watch: Callable[..., Any]) -> Iterator[None]:
    """Context in which something stands between Keras and a method that it finds by its name on layers or metrics.

    There is no public hook around the `call` of any layer. One that is called while something is compiled (the cell of
    a recurrent layer) is watched with the arguments that it has there.

    Args:
        objects: each once. Other objects of their classes, also in other threads, are not watched.
        name: of the method; not `__call__`, which Python finds on the class only.
        watch: called with an object, its method and the arguments; returns what the method returns.
    """
    # Past the attribute tracking of Keras. An object may have an attribute of this name already.
    before = [vars(watched).get(name) for watched in objects]
    try:
        for watched in objects:
            vars(watched)[name] = partial(watch, watched, getattr(watched, name))
        yield
    finally:
        for watched, own in zip(objects, before, strict=True):
            vars(watched).pop(name, None)
            if own is not None:
                vars(watched)[name] = own
