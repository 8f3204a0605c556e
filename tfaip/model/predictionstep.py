"""The prediction graph, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.precision import full_precision
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
            self._run = _compiled(layer, self._call)

    def __call__(self, inputs: TensorDict) -> TensorDict:
        """Outputs of a batch by name, on the device, which may still be at work on them."""
        return self._run(inputs)

    def _call(self, inputs: TensorDict) -> TensorDict:
        if isinstance(self._layer, GenericGraphBase):
            return full_precision(self._layer.predict(inputs))
        outputs = self._layer(inputs, training=False)
        if not isinstance(outputs, dict):
            raise TypeError(f"the model gives {type(outputs).__name__}, expected a dict name -> tensor")
        return full_precision(outputs)


class _JaxStep:
    """Compiled with the current values of the variables as arguments; what the graph changes is assigned to them."""

    def __init__(self, layer: keras.layers.Layer, call: Callable[[TensorDict], TensorDict]) -> None:
        import jax

        self._variables = [*layer.trainable_variables, *layer.non_trainable_variables]

        def step(values: list[Any], inputs: TensorDict) -> tuple[TensorDict, dict[int, Any]]:
            with keras.StatelessScope(list(zip(self._variables, values, strict=True))) as scope:
                outputs = call(inputs)
            after = [scope.get_current_value(variable) for variable in self._variables]
            return outputs, {i: new for i, (old, new) in enumerate(zip(values, after, strict=True)) if new is not old}

        self._step = jax.jit(step)

    def __call__(self, inputs: TensorDict) -> TensorDict:
        # Read every time: `fit` and `evaluate` give the arrays of the variables away.
        outputs, changed = self._step([variable.value for variable in self._variables], inputs)
        for position, value in changed.items():
            self._variables[position].assign(value)
        return outputs


def _compiled(
    layer: keras.layers.Layer, call: Callable[[TensorDict], TensorDict]
) -> Callable[[TensorDict], TensorDict]:
    if keras.backend.backend() == "jax":
        return _JaxStep(layer, call)
    from tfaip.model.compiledstep import TensorFlowStep

    return TensorFlowStep(call)
