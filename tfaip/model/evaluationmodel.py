"""The prediction graph with the losses and metrics of a model, batch by batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.data.pipeline.batching import Batch
from tfaip.device.devices import Devices
from tfaip.device.processes import sums
from tfaip.model.precision import full_precision
from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.logging import logger
from tfaip.util.typing import Logs, Tensor, TensorDict

OUTPUTS = "outputs"
VALUES = "values"

log = logger(__name__)


class EvaluationModel(TrainingModel):
    """Scores what the prediction graph gives. A loss or metric that needs an output only training has is left out."""

    def build_symbolically(self, inputs: TensorDict, targets: TensorDict) -> None:
        self.graph.predict(inputs)
        self._trace(inputs, targets, with_training=False)

    def call(self, inputs: tuple[TensorDict, TensorDict], training: bool | None = None) -> TensorDict:
        return full_precision(self.graph.predict(inputs[0]))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Tensor:
        """As in training, or zero if the losses need an output that the prediction graph has not."""
        compute = partial(super().compute_loss, x, y, sample_weight=sample_weight, training=training)
        try:
            return compute(y_pred=y_pred)
        except KeyError:
            missing = _missing_output(compute, y_pred)
            if missing is None:
                raise
            self._values.without_loss = True
            log.info("no loss on the prediction graph, which has no output %r", missing)
            return ops.zeros((), dtype="float32")

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Tensor]:
        """Values so far under `VALUES`, and the outputs of the batch under `OUTPUTS`."""
        compute = partial(super().compute_metrics, x, y, sample_weight=sample_weight)
        values: dict[str, Tensor] = {}
        try:
            values = compute(y_pred=y_pred)
        except KeyError:
            missing = _missing_output(compute, y_pred)
            if missing is None:
                raise
            self._values.called = []
            log.info("no metrics on the prediction graph, which has no output %r", missing)
        return {VALUES: values, OUTPUTS: y_pred}

    def values(self) -> Logs:
        """Means over all batches since the last reset."""
        result = {name: float(value) for name, value in self.get_metrics_result().items()}
        if self._values.without_loss:
            result.pop("loss")
        return result


class ScoringModel(EvaluationModel):
    """Scores outputs that come with the batch: its inputs are `{"inputs": ..., "outputs": ...}`.

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


class _Outputs(dict[str, Any]):
    """Outputs that tell a missing one from any other `KeyError`."""

    def __missing__(self, name: str) -> Any:
        raise _MissingOutput(name)


def _missing_output(compute: Callable[..., Any], outputs: TensorDict) -> str | None:
    """Which missing output makes `compute` fail; None: it fails for another reason.

    It runs once more, without changing anything. Not at first with `_Outputs`: Keras looks only into plain dicts.
    """
    try:
        with keras.StatelessScope():
            compute(y_pred=_Outputs(outputs))
    except _MissingOutput as error:
        return str(error.args[0])
    except KeyError:
        return None
    return None


class EvaluationStep:
    """Runs an `EvaluationModel` on one batch after the other, compiled.

    Keras' own `evaluate` keeps the outputs to itself and `predict` keeps all of them.

    Args:
        model: built.
        run_eagerly: do not compile.
        devices: whose processes score different batches; None: this process is alone.
    """

    def __init__(self, model: EvaluationModel, run_eagerly: bool = False, devices: Devices | None = None) -> None:
        self._devices = devices or Devices()
        model.compile(optimizer=None, run_eagerly=run_eagerly, jit_compile=False)
        self._model = model
        self._step = _step(model, run_eagerly)
        self._state: Any = None
        self._initial: list[np.ndarray] = []

    def reset(self) -> None:
        """Begin a new evaluation with the current weights."""
        self._model.reset_metrics()
        if keras.backend.backend() == "jax":
            groups = (
                self._model.trainable_variables,
                self._model.non_trainable_variables,
                self._model.metrics_variables,
            )
            # With several processes each has a copy of its own, since they run different batches.
            trainable, non_trainable, metrics = ([_local(variable.value) for variable in group] for group in groups)
            self._initial = [np.array(value) for value in metrics]
            # Copies: the step gives away what it gets of them.
            self._state = trainable, non_trainable, [value.copy() for value in metrics]

    def __call__(self, batch: Batch) -> TensorDict:
        """Score a batch; returns its outputs, on the device."""
        return self.score(batch.inputs, batch.targets)

    def score(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        """Score a batch of what the model takes; returns its outputs, on the device."""
        data = ((inputs, targets),)
        if self._state is None:
            return self._step(data)[OUTPUTS]
        trainable, non_trainable, metrics = self._state
        logs, changed, metrics = self._step(metrics, trainable, non_trainable, data)
        self._state = (trainable, [changed.get(i, value) for i, value in enumerate(non_trainable)], metrics)
        return logs[OUTPUTS]

    def result(self) -> Logs:
        """Values over all batches since `reset`; of all processes, whose accumulators are added up."""
        if self._state is not None:
            values = self._state[2]
            if self._devices.num_processes > 1:
                values = sums(self._devices, [np.asarray(value) for value in values], self._initial)
            for variable, value in zip(self._model.metrics_variables, values, strict=True):
                variable.assign(value)
        return self._model.values()


def _local(value: Any) -> Any:
    return value if value.is_fully_addressable else value.addressable_data(0)


def _step(model: EvaluationModel, run_eagerly: bool) -> Callable[..., Any]:
    if keras.backend.backend() == "jax":
        import jax

        step = _jax_step(model)
        return step if run_eagerly else jax.jit(step, donate_argnums=0)
    from tfaip.model.compiledstep import TensorFlowStep

    return model.test_step if run_eagerly else TensorFlowStep(model.test_step)


def _jax_step(model: EvaluationModel) -> Callable[..., Any]:
    """`test_step` that returns the metrics, and of other variables only those that it changed.

    What a compiled function returns is a copy, of all weights if it returns them. The metrics alone are updated in
    place. Their values are computed in every step though the last ones would do: on a CPU, JAX 0.10 then keeps both
    cores busy with the layers, which it does not otherwise (benchmarks/prediction.py: a seventh of a step of 9 ms).
    """

    def step(metrics: Any, trainable: Any, non_trainable: Any, data: Any) -> tuple[Any, dict[int, Any], Any]:
        logs, (_, after, metrics) = model.test_step((trainable, non_trainable, metrics), data)
        return (
            logs,
            {i: new for i, (old, new) in enumerate(zip(non_trainable, after, strict=True)) if new is not old},
            metrics,
        )

    return step
