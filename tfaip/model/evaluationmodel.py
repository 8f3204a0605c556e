"""The prediction graph with the losses and metrics of a model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor, TensorDict

OUTPUTS = "outputs"

log = logger(__name__)


class EvaluationModel(TrainingModel):
    """Scores what the prediction graph gives. A loss or metric that needs an output only training has is left out."""

    def call(self, inputs: tuple[TensorDict, TensorDict], training: bool | None = None) -> TensorDict:
        return self.graph.predict(inputs[0])

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """As in training, or zero if the losses need an output that the prediction graph has not."""
        try:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        except KeyError as error:
            self._values.without_loss = True
            log.info("no loss on the prediction graph, which has no %s", error)
            return ops.zeros((), dtype="float32")

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Tensor]:
        """Values so far; and the outputs of the batch under `OUTPUTS`."""
        try:
            super().compute_metrics(x, y, y_pred, sample_weight)
        except KeyError as error:
            self._values.called = []
            log.info("no metrics on the prediction graph, which has no %s", error)
        return {OUTPUTS: y_pred}

    def values(self) -> Logs:
        """Means over all batches since the last reset."""
        result = {name: float(value) for name, value in self.get_metrics_result().items()}
        if self._values.without_loss:
            result.pop("loss")
        return result


class EvaluationStep:
    """Runs an `EvaluationModel` on one batch after the other, compiled.

    Keras' own `evaluate` keeps the outputs to itself and `predict` keeps all of them.

    Args:
        model: built.
        run_eagerly: do not compile.
    """

    def __init__(self, model: EvaluationModel, run_eagerly: bool = False) -> None:
        model.compile(optimizer=None, run_eagerly=run_eagerly, jit_compile=False)
        self._model = model
        self._step: Callable[..., Any] = model.test_step
        self._state: Any = None
        if not run_eagerly:
            self._step = _compiled(model.test_step)

    def reset(self) -> None:
        """Begin a new evaluation with the current weights."""
        self._model.reset_metrics()
        if keras.backend.backend() == "jax":
            groups = (
                self._model.trainable_variables,
                self._model.non_trainable_variables,
                self._model.metrics_variables,
            )
            self._state = tuple([variable.value for variable in group] for group in groups)

    def __call__(self, inputs: TensorDict, targets: TensorDict) -> dict[str, np.ndarray]:
        """Score a batch; returns its outputs."""
        data = ((inputs, targets),)
        if self._state is None:
            outputs = self._step(data)[OUTPUTS]
        else:
            logs, self._state = self._step(self._state, data)
            outputs = logs[OUTPUTS]
        return {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}

    def result(self) -> Logs:
        """Values over all batches since `reset`."""
        if self._state is not None:
            for variable, value in zip(self._model.metrics_variables, self._state[2], strict=True):
                variable.assign(value)
        return self._model.values()


def _compiled(step: Callable[..., Any]) -> Callable[..., Any]:
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(step)
    import tensorflow as tf

    return tf.function(step, reduce_retracing=True)
