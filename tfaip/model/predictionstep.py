"""The prediction graph, batch by batch."""

from __future__ import annotations

import keras

from tfaip.backend.active import backend
from tfaip.model.graphbase import GenericGraphBase, full_precision
from tfaip.util.typing import TensorDict


class PredictionStep:
    """Compiled calls of a layer on one batch after the other.

    `keras.Model.predict` keeps the outputs of all batches until the last one.

    Args:
        layer: a graph, or any Keras model from a dict of inputs to a dict of outputs; built.
        run_eagerly: do not compile.
    """

    def __init__(self, layer: keras.layers.Layer, run_eagerly: bool = False) -> None:
        self._layer = layer
        self._step: backend.CompiledStep | None = None
        if not run_eagerly:
            variables = [*layer.trainable_variables, *layer.non_trainable_variables]
            self._step = backend.CompiledStep(self._call, variables)

    def __call__(self, inputs: TensorDict) -> TensorDict:
        """Return the outputs of a batch by name, on the device, which may still be at work on them."""
        if self._step is None:
            return self._call(inputs)
        self._step.read()
        outputs: TensorDict = self._step(inputs)
        self._step.write_variables()
        return outputs

    def _call(self, inputs: TensorDict) -> TensorDict:
        if isinstance(self._layer, GenericGraphBase):
            return full_precision(self._layer.predict(inputs))
        outputs = self._layer(inputs, training=False)
        if not isinstance(outputs, dict):
            raise TypeError(f"the model gives {type(outputs).__name__}, expected a dict name -> tensor")
        return full_precision(outputs)
