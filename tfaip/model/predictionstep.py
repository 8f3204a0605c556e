"""Compiled steps of the prediction graph: its outputs, or its losses and metrics, batch by batch."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.backend.active import backend
from tfaip.device.collectives import all_reduce_sum
from tfaip.device.devices import Devices
from tfaip.model.graphbase import MASKS, full_precision, require_outputs, with_masks
from tfaip.model.trainingmodel import TOTAL_LOSS, TrainingModel
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor, TensorDict

OUTPUTS = "outputs"
VALUES = "values"

log = logger(__name__)


class PredictionStep:
    """Compiled calls of a layer on one batch after the other.

    `keras.Model.predict` keeps the outputs of all batches until the last one.

    Args:
        layer: a graph, or any Keras model from a dict of inputs to a dict of outputs; built.
    """

    def __init__(self, layer: keras.layers.Layer, run_eagerly: bool = False) -> None:
        self._layer = layer
        variables = [*layer.trainable_variables, *layer.non_trainable_variables]
        self._step = backend.CompiledStep(self._call, variables, run_eagerly=run_eagerly)

    def __call__(self, inputs: TensorDict) -> TensorDict:
        """Return the outputs of a batch by name, on the device, which may still be at work on them."""
        self._step.read()
        outputs: TensorDict = self._step(inputs)
        self._step.write_variables()
        return outputs

    def _call(self, inputs: TensorDict) -> TensorDict:
        return full_precision(require_outputs(self._layer, self._layer(inputs, training=False)))


class EvaluationModel(TrainingModel):
    """Model that scores the prediction graph. Losses or metrics that need an output only training has are left out."""

    def build_symbolically(self, inputs: TensorDict, targets: TensorDict) -> None:
        self.graph.predict(inputs)
        self._trace(inputs, targets, with_training=False)

    def call(self, inputs: tuple[TensorDict, TensorDict], training: bool | None = None) -> TensorDict:
        return with_masks(full_precision(self.graph.predict(inputs[0])))

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Tensor:
        """Return the loss as in training, or zero if the losses need an output that the prediction graph has not."""
        loss = _unless_missing("loss", partial(super().compute_loss, x, training=training), y_pred)
        if loss is None:
            self._hidden.without_loss = True
            return ops.zeros((), dtype="float32")
        return loss

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Tensor]:
        """Return the values so far under `VALUES`, and the outputs of the batch under `OUTPUTS`."""
        values = _unless_missing("metrics", partial(super().compute_metrics, x, y), y_pred)
        if values is None:
            self._hidden.called = []
        return {VALUES: values or {}, OUTPUTS: y_pred}

    def values(self) -> Logs:
        """Return the means over all batches since the last reset."""
        result = {name: float(value) for name, value in self.get_metrics_result().items()}
        if self._hidden.without_loss:
            # Also those that are known since the model was built, with outputs that a vote leaves out.
            for name in (TOTAL_LOSS, *self.loss_names):
                result.pop(name, None)
        return result


class ScoringModel(EvaluationModel):
    """Model that scores outputs which come with the batch: its inputs are `{"inputs": ..., "outputs": ...}`.

    Losses of layers are left out: they belong to a model, not to outputs.
    """

    def build_symbolically(self, inputs: TensorDict, targets: TensorDict) -> None:
        self._trace({"inputs": inputs, OUTPUTS: self.graph.predict(inputs)}, targets, with_training=False)

    def call(self, inputs: tuple[TensorDict, TensorDict], training: bool | None = None) -> TensorDict:
        return inputs[0][OUTPUTS]

    @property
    def losses(self) -> list[Tensor]:
        return []

    def _loss_arguments(self, x: tuple[TensorDict, TensorDict], outputs: TensorDict) -> tuple[TensorDict, TensorDict]:
        return super()._loss_arguments((x[0]["inputs"], x[1]), outputs)


class _MissingOutput(KeyError):
    """An output was asked for that the graph has not."""


def _raise_missing() -> Any:
    raise _MissingOutput


def _unless_missing(what: str, compute: Callable[..., Any], outputs: TensorDict) -> Any:
    """Return what a function computes from the outputs; None: it needs one that the prediction graph has not."""
    try:
        return compute(y_pred=defaultdict(_raise_missing, outputs))  # Keras does not look into other classes of dicts
    except _MissingOutput:
        log.info("no %s on the prediction graph, which lacks an output of the training", what)
        return None


class EvaluationStep:
    """Compiled evaluation of one batch after the other by an `EvaluationModel`.

    Keras' own `evaluate` keeps the outputs to itself and `predict` keeps all of them.

    Args:
        model: built.
        devices: whose processes score different batches; None: this process is alone.
    """

    def __init__(self, model: EvaluationModel, run_eagerly: bool = False, devices: Devices | None = None) -> None:
        self._devices = devices or Devices()
        model.compile(optimizer=None, run_eagerly=run_eagerly, jit_compile=False)
        self._model = model
        # The step returns the values of the metrics though the last ones would do: on a CPU, JAX 0.10 then keeps both
        # cores busy with the layers, which it does not otherwise (benchmarks/prediction.py: a seventh of a step of
        # 9 ms).
        variables = [*model.trainable_variables, *model.non_trainable_variables]
        self._step = backend.CompiledStep(model.score_batch, variables, model.metrics_variables, run_eagerly)
        self._initial: list[np.ndarray] = []
        self._states: list[tuple[keras.Variable, np.ndarray]] = []
        self.masks: TensorDict = {}
        """Keras masks of the outputs of the last batch, by name."""

    def reset(self) -> None:
        """Begin a new evaluation with the current weights."""
        self._model.reset_metrics()
        self._states = [(state, backend.to_numpy(state)) for state in self._model.states()]
        shared = self._devices.num_processes > 1
        self._step.read(of_this_process=shared)
        self._initial = self._step.accumulated() if shared else []

    def __call__(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Score a batch of what the model takes; return its outputs, on the device."""
        with self._model.failures_named():
            outputs: TensorDict = self._step(inputs, targets)[OUTPUTS]
        self.masks = outputs.pop(MASKS, {})
        return outputs

    def result(self) -> Logs:
        """Return the values over all batches since `reset`; of all processes, whose accumulators are added up.

        What the layers have changed, such as the state of a recurrent one, is as it was before `reset`.
        """
        for state, value in self._states:
            state.assign(value)
        if self._devices.num_processes == 1:
            self._step.write_accumulators()
        else:
            totals = all_reduce_sum(self._devices, self._step.accumulated(), self._initial)
            for variable, total in zip(self._model.metrics_variables, totals, strict=True):
                variable.assign(total)
        return self._model.values()
