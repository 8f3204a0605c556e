"""A step that is only traced, with Keras tensors."""

from __future__ import annotations

import keras

from tfaip.backend.keras_private import BuiltModel, RecordingScope
from tfaip.util.typing import Tensor, TensorDict


class SymbolicStep(keras.layers.Layer):
    """Step without an update; called with Keras tensors it only traces, which creates all variables.

    Args:
        training_model: whose step; not owned by this layer.
        with_training: trace it in training mode too.
    """

    assigned: list[keras.Variable]
    """The variables that the step has assigned, in training mode if it was traced in that."""

    def __init__(self, training_model: BuiltModel, with_training: bool) -> None:
        super().__init__(name="symbolic_step", autocast=False)
        self._with_training = with_training
        # Hidden from the attribute tracking of Keras: the layer must not own the variables of the model.
        object.__setattr__(self, "_training_model", training_model)
        object.__setattr__(self, "assigned", [])

    def call(self, inputs: tuple[TensorDict, TensorDict]) -> Tensor:
        model: BuiltModel = self._training_model
        # While tracing, what layers pass to `add_loss` is kept only on request.
        if self._with_training:
            with RecordingScope(collect_losses=True) as scope:
                model.compute_loss(inputs, None, model(inputs, training=True), training=True)
            object.__setattr__(self, "assigned", scope.assigned)
        with RecordingScope(collect_losses=True) as scope:
            outputs = model(inputs, training=False)
            loss = model.compute_loss(inputs, None, outputs, training=False)
            model.compute_metrics(inputs, None, outputs)
        if not self._with_training:
            object.__setattr__(self, "assigned", scope.assigned)
        return loss
