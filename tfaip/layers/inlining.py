"""Layers that leave no trace in a functional Keras model: `.keras` files hold only what they call."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import keras

from tfaip.util.typing import Tensor

_inlined: ContextVar[bool] = ContextVar("tfaip_inlined_layers", default=False)


@contextlib.contextmanager
def inlined_layers() -> Iterator[None]:
    """Context in which our layers and graphs leave no trace in a symbolic call, but only the layers that they call.

    A functional Keras model that is made so consists of layers that Keras knows. Everything runs in inference mode.
    """
    token = _inlined.set(True)
    try:
        yield
    finally:
        _inlined.reset(token)


def is_inlined() -> bool:
    """Return True within `inlined_layers`."""
    return _inlined.get()


def call_in_inference(layer: Any, *args: Any, **kwargs: Any) -> Any:
    """Return what the `call` of a layer itself returns in inference mode."""
    kwargs.pop("training", None)
    # Keras too passes `training` only to methods that take it.
    if "training" in inspect.signature(layer.call).parameters:
        kwargs["training"] = False
    return layer.call(*args, **kwargs)


class InlinedLayer(keras.layers.Layer):
    """Base of a layer that is replaced by what it calls within `inlined_layers`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer as Keras does, unless it is inlined."""
        if is_inlined():
            return call_in_inference(self, *args, **kwargs)
        return super().__call__(*args, **kwargs)

    def add_loss(self, loss: Tensor) -> None:
        """Add a loss as Keras does, unless the layer is inlined: the layer is no part of the model then."""
        if not is_inlined():
            super().add_loss(loss)
