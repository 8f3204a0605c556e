"""State of a training: everything that a resumed run needs to continue as if it had never stopped."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import keras
import numpy as np

from tfaip.backend.keras_private import global_random_state, set_global_random_state
from tfaip.backend.kerastools import Execution
from tfaip.model.hostbuffer import HostBuffer
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.trainer.run.checkpoint import Checkpoint
from tfaip.trainer.runparams import Params, stored_params
from tfaip.trainer.trainingprogress import TrainingProgress, damage_named, stored_execution

T = TypeVar("T")

WEIGHTS = "weights/"
METRICS = "metrics/"
BEST_WEIGHTS = "best_weights/"
# Gradients of an update that is not complete, and their size.
WAITING = "optimizer/gradient_accumulator"


@dataclass(frozen=True)
class BestWeights:
    """Raw weights of the best epoch.

    Args:
        epoch: the epoch; 0: there is none yet.
        arrays: the weights by path.
    """

    epoch: int = 0
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


@dataclass(frozen=True)
class EvaluationState:
    """Part of the state that an evaluation changes.

    Args:
        arrays: values of variables by name.
        random: states of the global generators.
    """

    arrays: Mapping[str, np.ndarray]
    random: Mapping[str, Any]


class TrainState:
    """Progress, variables and random generators of a training, saved and restored as a whole.

    Args:
        model: the compiled training model, with all variables built.
        params: the params of the run; a checkpoint stores them as those that it was trained with.
        progress: of the stages before; None: there are none.
        place: the stage, in the form that a checkpoint stores.
    """

    def __init__(
        self,
        model: TrainingModel,
        params: Params,
        progress: TrainingProgress | None = None,
        place: Mapping[str, Any] | None = None,
    ) -> None:
        self.progress = progress or TrainingProgress()
        self._model = model
        self._params = params
        self._place = place or {}
        self.best_weights = BestWeights()
        """The weights that `restore_best` goes back to."""

    def keep_best(self, epoch: int) -> None:
        """Keep a copy of the raw weights, not their averages, as those of the best epoch."""
        self.best_weights = BestWeights(epoch, variable_arrays(self.weights_by_path()))

    def restore_best(self) -> int | None:
        """Go back to the kept weights; reset averages and moments, and drop accumulated gradients.

        Returns:
            The epoch of the weights. None, and nothing has changed, if none are kept, since no score
            of the stage was finite yet, or the run was started without keeping them.
        """
        if not self.best_weights.arrays:
            return None
        assign_arrays(self.weights_by_path(), self.best_weights.arrays, "the best epoch")
        self._model.optimizer.reset()
        return self.best_weights.epoch

    def capture(self, buffer: HostBuffer | None = None, before: EvaluationState | None = None) -> Checkpoint:
        """Return a copy of the whole state.

        Args:
            buffer: gets the values of the variables; the copy is valid until it is filled again. None: a new one.
            before: values from before an evaluation, for what it has changed.
        """
        arrays = (buffer or HostBuffer()).fill(self._variables())
        if before is not None:
            arrays.update(before.arrays)
        state = {
            **self.progress.to_dict(),
            **self._place,
            "backend": keras.backend.backend(),
            "random": _random_state() if before is None else before.random,
            "params": stored_params(self._params),
            "best_epoch": self.best_weights.epoch,
            "accum_steps": self._model.optimizer.accum_steps,
            "execution": self._model.execution.to_dict(),
        }
        arrays.update({BEST_WEIGHTS + path: array for path, array in self.best_weights.arrays.items()})
        return Checkpoint(arrays, state)

    def hold_weights(self, buffer: HostBuffer) -> dict[str, np.ndarray]:
        """Copy all variables of the graph by path, as they are now, to where `capture` copies them to; see `hold`."""
        return {name.removeprefix(WEIGHTS): array for name, array in buffer.hold(self._graph_variables()).items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set the whole state.

        Raises:
            TfaipError: if the checkpoint belongs to another model or other params.
        """
        variables = self._variables()
        arrays: dict[str, np.ndarray] = dict(checkpoint.arrays)
        best: dict[str, np.ndarray] = {}
        for name in checkpoint.arrays:
            if name.startswith(BEST_WEIGHTS):
                best[name.removeprefix(BEST_WEIGHTS)] = arrays.pop(name)
        if checkpoint.state["step"] == 0:
            # Between epochs the accumulators are of no use: a resume may add and remove metrics.
            variables, arrays = _without(METRICS, variables), _without(METRICS, arrays)
        accum_steps = checkpoint.state["accum_steps"]
        if accum_steps != self._model.optimizer.accum_steps:
            variables, arrays = _without(WAITING, variables), _without(WAITING, arrays)
        assign_arrays(variables, arrays, "the checkpoint")
        self.progress = TrainingProgress.from_dict(checkpoint.state)
        with damage_named():
            self._model.optimizer.continue_after(accum_steps)
            _set_random_state(checkpoint.state["random"])
        self.best_weights = BestWeights(checkpoint.state["best_epoch"], best)
        is_automatic = self._model.execution.is_automatic
        self._model.execution = replace(stored_execution(checkpoint.state), is_automatic=is_automatic)

    def evaluation_state(self) -> EvaluationState:
        """Return a copy of what an evaluation changes: accumulators of metrics, and random states of the graph."""
        untrained = {id(v) for v in self._model.graph.non_trainable_variables}
        weights = {name: v for name, v in self._graph_variables().items() if id(v) in untrained}
        return EvaluationState(variable_arrays({**weights, **self._metric_variables()}), _random_state())

    def metric_arrays(self) -> dict[str, np.ndarray]:
        """Return a copy of the metric accumulators."""
        return variable_arrays(self._metric_variables())

    def assign_metrics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the metric accumulators."""
        assign_arrays(self._metric_variables(), arrays, "the metrics")

    def set_back(self, before: EvaluationState) -> None:
        """Undo what an evaluation has changed."""
        named = {**self._graph_variables(), **self._metric_variables()}
        assign_arrays({name: named[name] for name in before.arrays}, before.arrays, "the model before")
        _set_random_state(before.random)

    def optimizer_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of the optimizer by name."""
        return self._model.optimizer.named_variables(variables_by_path(self._model.graph))

    def _variables(self) -> dict[str, keras.Variable]:
        optimizer = {f"optimizer/{name}": v for name, v in self.optimizer_variables().items()}
        return {**self._graph_variables(), **optimizer, **self._metric_variables()}

    def _graph_variables(self) -> dict[str, keras.Variable]:
        return {f"{WEIGHTS}{path}": v for path, v in variables_by_path(self._model.graph).items()}

    def weights_by_path(self) -> dict[str, keras.Variable]:
        """Return the weights of the graph, see `weights_of`."""
        return weights_of(self._model.graph)

    def _metric_variables(self) -> dict[str, keras.Variable]:
        named: dict[str, keras.Variable] = {}
        for metric in self._model.metrics:
            named.update({f"{METRICS}{metric.name}/{i}": v for i, v in enumerate(metric.variables)})
        return named


def weights_of(graph: keras.layers.Layer) -> dict[str, keras.Variable]:
    """Return the weights of a graph by path, without states of random generators, which are never set back."""
    weights = {id(weight) for weight in graph.weights}
    return {path: v for path, v in variables_by_path(graph).items() if id(v) in weights}


def beginning(params: Params, place: Mapping[str, Any]) -> Checkpoint:
    """Return the state of a run before its first model: a resumed run makes that again, from the seed.

    Args:
        params: the params of the run.
        place: the first stage, in the form that a checkpoint stores.
    """
    state = {"backend": keras.backend.backend(), "random": {}, "params": stored_params(params)}
    numbers = {"best_epoch": 0, "accum_steps": 1, "execution": Execution().to_dict()}
    return Checkpoint({}, {**TrainingProgress().to_dict(), **place, **state, **numbers})


def _without(prefix: str, named: Mapping[str, T]) -> dict[str, T]:
    return {name: value for name, value in named.items() if not name.startswith(prefix)}


def _random_state() -> dict[str, Any]:
    """Return the states of the global generators of Python, NumPy and Keras, for user code that draws from them."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        "keras": global_random_state(),
    }


def _set_random_state(state: Mapping[str, Any]) -> None:
    if state.get("keras") is not None:
        # Before the others: if it is created here, it takes its seed from the generator of Python.
        set_global_random_state(state["keras"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))
