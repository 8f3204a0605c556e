"""Base of the layers of the toolkit, which `.keras` files do not contain; rates and random numbers of layers."""

import contextlib
import inspect
import math
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, TypeAlias

import keras
from keras import ops

from tfaip.backend.active import backend
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


Rate: TypeAlias = float | keras.Variable


def require_rate(name: str, rate: Rate, high: float = math.inf) -> Rate:
    """Return the rate of a layer; the value of a variable is not known yet and not checked."""
    if not isinstance(rate, keras.Variable) and not 0 <= rate <= high:
        limits = "at least 0" if math.isinf(high) else f"from 0 to {high:g}"
        raise ValueError(f"{name} is {rate}, expected a number {limits}")
    return rate


def read_rate(rate: Rate, high: float = math.inf) -> Tensor:
    """Return the rate as a float32 scalar.

    It is read in each call and never in a Python condition, so that a compiled step follows a variable. A value of a
    variable that is not within the limits, from 0 to `high`, counts as the next one that is.
    """
    return ops.clip(ops.cast(ops.convert_to_tensor(rate), "float32"), 0.0, high)


def rate_number(rate: Rate) -> float:
    """Return the rate as a number, for the config of a layer."""
    if isinstance(rate, keras.Variable):
        return float(ops.convert_to_numpy(rate.value))
    return rate


def uniform_rows(shape: tuple[Any, ...], generator: keras.random.SeedGenerator) -> Tensor:
    """Return float32 numbers that are uniform in [0, 1).

    Where several devices share a batch, each gets those that one device would draw for its rows. (With a shape of its
    rows alone, all devices would draw the same numbers.)
    """
    replicas = backend.num_replicas()
    if replicas == 1:
        return keras.random.uniform(shape, dtype="float32", seed=generator)
    drawn = keras.random.uniform((replicas, *shape), dtype="float32", seed=generator)
    return ops.take(drawn, backend.replica_number(), axis=0)
