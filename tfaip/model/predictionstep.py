"""The prediction graph, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from tfaip.model.graphbase import GenericGraphBase
from tfaip.util.typing import TensorDict


class PredictionStep:
    """Runs a layer on one batch after the other, compiled.

    `keras.Model.predict` keeps the outputs of all batches until the last one.

    Args:
        layer: a graph, or any Keras model from a dict of inputs to a dict of outputs; built.
        run_eagerly: do not compile.
    """

    def __init__(self, layer: keras.layers.Layer, run_eagerly: bool = False) -> None:
        self._layer = layer
        self._run: Callable[[TensorDict], TensorDict] = self._call
        if not run_eagerly:
            self._run = _JaxStep(layer, self._call) if keras.backend.backend() == "jax" else _compiled(self._call)

    def __call__(self, inputs: TensorDict) -> dict[str, np.ndarray]:
        """Outputs of a batch by name."""
        return {name: keras.ops.convert_to_numpy(value) for name, value in self._run(inputs).items()}

    def _call(self, inputs: TensorDict) -> TensorDict:
        if isinstance(self._layer, GenericGraphBase):
            return self._layer.predict(inputs)
        outputs = self._layer(inputs, training=False)
        if not isinstance(outputs, dict):
            raise TypeError(f"the model gives {type(outputs).__name__}, expected a dict name -> tensor")
        return outputs


class _JaxStep:
    """Compiled with the weights as arguments; what the graph changes (random states) is kept."""

    def __init__(self, layer: keras.layers.Layer, call: Callable[[TensorDict], TensorDict]) -> None:
        import jax

        self._weights = [variable.value for variable in layer.trainable_variables]
        self._state = [variable.value for variable in layer.non_trainable_variables]

        def step(weights: list[Any], state: list[Any], inputs: TensorDict) -> tuple[TensorDict, list[Any]]:
            variables = [*layer.trainable_variables, *layer.non_trainable_variables]
            with keras.StatelessScope(list(zip(variables, [*weights, *state], strict=True))) as scope:
                outputs = call(inputs)
            return outputs, [scope.get_current_value(variable) for variable in layer.non_trainable_variables]

        self._step = jax.jit(step)

    def __call__(self, inputs: TensorDict) -> TensorDict:
        outputs, self._state = self._step(self._weights, self._state, inputs)
        return outputs


def _compiled(call: Callable[[TensorDict], TensorDict]) -> Callable[[TensorDict], TensorDict]:
    import tensorflow as tf

    return tf.function(call, reduce_retracing=True)
