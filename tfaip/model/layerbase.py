"""Keras layers with the extras of the toolkit."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import keras

from tfaip.model.keras_objects.base import keras_object
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.scheduledvalue import new_scheduled_value
from tfaip.model.tensorboardwriter import TensorboardWriter, record_tensorboard_value
from tfaip.params.generics import type_argument
from tfaip.util.typing import Tensor

__all__ = ["LayerBase", "LayerBaseParams", "TFAIPLayerBase"]

P = TypeVar("P")
L = TypeVar("L", bound=LayerBaseParams)

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


class TFAIPLayerBase(keras.layers.Layer):
    """A Keras layer that can send values to TensorBoard, and let schedules change its numbers."""

    @property
    def scheduled_values(self) -> dict[str, keras.Variable]:
        """The numbers that the layer has made live with `scheduled`, by name."""
        return getattr(self, "_scheduled_values", {})

    def scheduled(self, name: str, value: float) -> keras.Variable:
        """Return a number that a schedule may change (`trainer.schedules`); call it in `__init__`.

        The target is `graph.NAME` in a graph, `graph.encoder.NAME` in its layer `self.encoder`. The number is stored
        with the weights: an exported model has the one that it was validated with.

        Args:
            name: of the number.
            value: without a schedule.

        Returns:
            A float32 scalar variable, to compute with in `call`.
        """
        if not hasattr(self, "_scheduled_values"):
            self._scheduled_values: dict[str, keras.Variable] = {}
        return new_scheduled_value(self._scheduled_values, name, value)

    def add_tensorboard(self, writer: TensorboardWriter, value: Tensor) -> None:
        """Show `value` (a tensor of this forward pass) in TensorBoard, drawn by `writer`, once per epoch."""
        record_tensorboard_value(writer, value)


class ParamsLayer(TFAIPLayerBase, Generic[P]):
    """A layer that is built from params and keeps them."""

    def __init__(self, params: P, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Past Keras' attribute tracking, which would replace the lists and dicts inside of the params.
        object.__setattr__(self, "_params", params)

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the layer was declared with."""
        return type_argument(cls, ParamsLayer, 0)

    @property
    def params(self) -> P:
        """The params that the layer was built from."""
        return self._params

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer as Keras does, unless it is inlined."""
        if not _inlined.get():
            return super().__call__(*args, **kwargs)
        kwargs.pop("training", None)
        # Keras too passes `training` only to methods that take it.
        if "training" in inspect.signature(self.call).parameters:
            kwargs["training"] = False
        return self.call(*args, **kwargs)

    def add_loss(self, loss: Tensor) -> None:
        """Add a loss as Keras does, unless the layer is inlined: the layer is no part of the model then."""
        if not _inlined.get():
            super().add_loss(loss)


class LayerBase(ParamsLayer[L], Generic[L]):
    """A layer built from `LayerBaseParams`: `super().__init__(params)`, then create the sub-layers.

    `kernel_initializer`, `bias_initializer` and `kernel_regularizer` (perhaps None) hold the Keras objects that
    the params describe. Losses of the layer (`add_loss`, regularisers) join the loss, logged as `regularization`.
    """

    def __init__(self, params: L, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.kernel_initializer = keras_object(params.kernel_initializer, keras.initializers.get)
        self.bias_initializer = keras_object(params.bias_initializer, keras.initializers.get)
        self.kernel_regularizer = keras_object(params.kernel_regularizer, keras.regularizers.get)
