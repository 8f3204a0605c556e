"""Keras layers with the extras of the toolkit, and numbers that schedules may change."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

import keras

from tfaip.layers.baselayer import InlinedLayer
from tfaip.model.keras_objects import keras_object
from tfaip.model.layerbaseparams import LayerBaseParams
from tfaip.model.tensorboardwriter import TensorboardWriter, record_tensorboard_value
from tfaip.params.types import type_argument
from tfaip.util.typing import Tensor

__all__ = ["LayerBase", "LayerBaseParams", "TFAIPLayerBase"]

P = TypeVar("P")
L = TypeVar("L", bound=LayerBaseParams)


class ScheduledValue(keras.Variable):
    """Float32 scalar, read in the precision of the layer that computes with it.

    Args:
        declared: its value without a schedule.
    """

    def __init__(self, name: str, declared: float) -> None:
        self.declared = declared
        start = keras.initializers.Constant(declared)
        super().__init__(start, shape=(), dtype="float32", trainable=False, autocast=True, name=name)


class WithScheduledValues:
    """Layer, graph or model whose numbers schedules may change."""

    _scheduled_values: dict[str, ScheduledValue] | None = None

    @property
    def scheduled_values(self) -> Mapping[str, ScheduledValue]:
        """The numbers that were made with `scheduled`, by name."""
        return self._scheduled_values or {}

    def scheduled(self, name: str, value: float) -> keras.Variable:
        """Return a number that a schedule may change (`trainer.schedules`); call it in `__init__`.

        The target is `model.NAME` of a model, `graph.NAME` of a graph, `graph.encoder.NAME` of its layer
        `self.encoder`. The number of a graph or layer is stored with the weights: an exported model has the one that it
        was validated with.

        Args:
            value: without a schedule, whatever the weights hold that a training begins with.

        Returns:
            A float32 scalar variable, to compute with in `call`, `_loss` or `_metric`.

        Raises:
            ValueError: if the name is known, or is not an identifier.
        """
        if not name.isidentifier() or name in self.scheduled_values:
            raise ValueError(f"scheduled({name!r}): expected a new name of letters, digits and underscores")
        if self._scheduled_values is None:
            self._scheduled_values = {}
        self._scheduled_values[name] = made = ScheduledValue(name, float(value))
        return made


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
