"""Keras layers with the extras of the toolkit."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import keras

from tfaip.layers.inlining import InlinedLayer
from tfaip.model.keras_objects import keras_object
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.scheduledvalues import WithScheduledValues
from tfaip.model.tensorboardwriter import TensorboardWriter, record_tensorboard_value
from tfaip.params.types import type_argument
from tfaip.util.typing import Tensor

__all__ = ["LayerBase", "LayerBaseParams", "TFAIPLayerBase"]

P = TypeVar("P")
L = TypeVar("L", bound=LayerBaseParams)


class TFAIPLayerBase(WithScheduledValues, keras.layers.Layer):
    """A Keras layer that can send values to TensorBoard, and let schedules change its numbers."""

    def add_tensorboard(self, writer: TensorboardWriter, value: Tensor) -> None:
        """Show `value` (a tensor of this forward pass) in TensorBoard, drawn by `writer`, once per epoch."""
        record_tensorboard_value(writer, value)


class ParamsLayer(InlinedLayer, TFAIPLayerBase, Generic[P]):
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
