"""State of a training: everything that a resumed run needs to continue as if it had never stopped."""

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.backend.keras_private import global_random_state, set_global_random_state
from tfaip.data.pipeline.sampler import Position
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import HostBuffer, assign_arrays, variable_arrays
from tfaip.params.codec import encode
from tfaip.trainer.history import History
from tfaip.trainer.params import Params
from tfaip.trainer.run.output import WEIGHTS, Checkpoint

RUNNING = "stage"
"""Key of the record of the running stage in the state of a checkpoint; None: the first stage has not begun."""
METRICS = "metrics/"
BEST_WEIGHTS = "best_weights/"
# Gradients of an update that is not complete, and their size.
WAITING = "optimizer/gradient_accumulator"

_DIRECTORY_FIELDS = ("output_dir", "overwrite")
_STORED_AS_THEY_ARE = ("epoch", "step", "samples", "seconds", "window_step", "window", "dropped")


@dataclass
class TrainingProgress:
    """Progress of a training, and what it has found out.

    Args:
        epoch: completed epochs.
        step: trained batches of the running epoch; 0 between epochs.
        samples: samples in these batches.
        seconds: duration of the running epoch in earlier processes, and in this one up to the last checkpoint.
        position: position in the stream of training samples after these batches.
        window_step: batches of the running epoch before the open window of `log_every_n_updates`.
        window: total and count of each mean at its beginning, by name.
        history: records of the completed epochs.
        dropped: samples that were left out before the running epoch, as in `position`.
    """

    epoch: int = 0
    step: int = 0
    samples: int = 0
    seconds: float = 0.0
    position: Position = field(default_factory=Position)
    window_step: int = 0
    window: dict[str, list[float]] = field(default_factory=dict)
    history: History = field(default_factory=History)
    dropped: list[int] = field(default_factory=lambda: [0, 0, 0])

    def begin_epoch_after(self, epoch: int) -> None:
        """Count `epoch` as completed."""
        self.epoch, self.step, self.samples, self.seconds = epoch, 0, 0, 0.0
        self.window_step, self.window, self.dropped = 0, {}, list(self.position.dropped)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which is a part of the state of a checkpoint."""
        numbers = {name: getattr(self, name) for name in _STORED_AS_THEY_ARE}
        return {**numbers, "position": self.position.to_dict(), "history": self.history.text()}

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over the progress in the state of a checkpoint."""
        for name in _STORED_AS_THEY_ARE:
            setattr(self, name, copy.deepcopy(state[name]))
        self.position, self.history = Position.from_dict(state["position"]), History.parse(state["history"])


class TrainState:
    """Progress, variables and random generators of a training, saved and restored as a whole.

    Args:
        model: the compiled training model, with all variables built.
        params: the params of the run; a checkpoint stores them as those that it was trained with.
        progress: of the stages before; None: there are none.
        running: the record of the stage; None: it has none.
    """

    def __init__(
        self,
        model: TrainingModel,
        params: Params,
        progress: TrainingProgress | None = None,
        running: Mapping[str, Any] | None = None,
    ) -> None:
        self.progress = progress or TrainingProgress()
        self._model = model
        self._params = params
        self._running = running
        # Those that `restore_best` goes back to, and their epoch; 0: there are none yet.
        self._best_epoch = 0
        self._best_weights: Mapping[str, np.ndarray] = {}

    def keep_best(self, epoch: int) -> None:
        """Keep a copy of the raw weights, not their averages, as those of the best epoch."""
        self._best_epoch, self._best_weights = epoch, variable_arrays(self.weights_by_path())

    def restore_best(self) -> int | None:
        """Go back to the kept weights; reset averages and moments, and drop accumulated gradients."""
        if not self._best_weights:
            return None
        assign_arrays(self.weights_by_path(), self._best_weights, "the best epoch")
        self._model.optimizer.reset()
        return self._best_epoch

    def capture(self, buffer: HostBuffer | None = None) -> Checkpoint:
        """Return a copy of the whole state."""
        arrays = (buffer or HostBuffer()).fill(self._variables())
        state = {
            **self.progress.to_dict(),
            RUNNING: self._running,
            "backend": keras.backend.backend(),
            "random": _random_state(),
            "params": stored_params(self._params),
            "best_epoch": self._best_epoch,
            "accum_steps": self._model.optimizer.accum_steps,
        }
        arrays.update({BEST_WEIGHTS + path: array for path, array in self._best_weights.items()})
        return Checkpoint(arrays, state)

    def hold_weights(self, buffer: HostBuffer) -> dict[str, np.ndarray]:
        """Copy all variables of the graph by path, as they are now, to where `capture` copies them to; see `hold`."""
        return {name.removeprefix(WEIGHTS): array for name, array in buffer.hold(self._graph_variables()).items()}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set the whole state."""
        state, model, variables = checkpoint.state, self._model, self._variables()
        left_out = [BEST_WEIGHTS]
        if state["step"] == 0:
            # Between epochs the accumulators are of no use: a resume may add and remove metrics.
            left_out.append(METRICS)
        if state["accum_steps"] != model.optimizer.accum_steps:
            left_out.append(WAITING)
        arrays = {name: array for name, array in checkpoint.arrays.items() if not name.startswith(tuple(left_out))}
        variables = {name: variable for name, variable in variables.items() if not name.startswith(tuple(left_out))}
        assign_arrays(variables, arrays, "the checkpoint")
        self.progress.load(state)
        model.optimizer.continue_after(state["accum_steps"])
        _set_random_state(state["random"])
        best = [name for name in checkpoint.arrays if name.startswith(BEST_WEIGHTS)]
        self._best_epoch = state["best_epoch"]
        self._best_weights = {name.removeprefix(BEST_WEIGHTS): checkpoint.arrays[name] for name in best}

    def before_evaluation(self) -> Checkpoint:
        """Return a copy of what an evaluation changes: accumulators of metrics, and random states of the graph."""
        untrained = {id(v) for v in self._model.graph.non_trainable_variables}
        weights = {name: v for name, v in self._graph_variables().items() if id(v) in untrained}
        return Checkpoint(variable_arrays({**weights, **self._metric_variables()}), _random_state())

    def metric_arrays(self) -> dict[str, np.ndarray]:
        """Return a copy of the metric accumulators."""
        return variable_arrays(self._metric_variables())

    def assign_metrics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the metric accumulators."""
        assign_arrays(self._metric_variables(), arrays, "the metrics")

    def set_back(self, before: Checkpoint) -> None:
        """Undo what an evaluation has changed."""
        named = {**self._graph_variables(), **self._metric_variables()}
        assign_arrays({name: named[name] for name in before.arrays}, before.arrays, "the model before")
        _set_random_state(before.state)

    def optimizer_variables(self) -> dict[str, keras.Variable]:
        """Return the variables of the optimizer by name."""
        return self._model.optimizer.named_variables(variables_by_path(self._model.graph))

    def weights_by_path(self) -> dict[str, keras.Variable]:
        """Return the weights of the graph by path, without states of random generators, which are never set back."""
        weights = {id(weight) for weight in self._model.graph.weights}
        return {path: v for path, v in variables_by_path(self._model.graph).items() if id(v) in weights}

    def _variables(self) -> dict[str, keras.Variable]:
        optimizer = {f"optimizer/{name}": v for name, v in self.optimizer_variables().items()}
        return {**self._graph_variables(), **optimizer, **self._metric_variables()}

    def _graph_variables(self) -> dict[str, keras.Variable]:
        return {f"{WEIGHTS}{path}": v for path, v in variables_by_path(self._model.graph).items()}

    def _metric_variables(self) -> dict[str, keras.Variable]:
        named: dict[str, keras.Variable] = {}
        for metric in self._model.metrics:
            named.update({f"{METRICS}{metric.name}/{i}": v for i, v in enumerate(metric.variables)})
        return named


def beginning(params: Params) -> Checkpoint:
    """Return the state of a run before its first model: a resumed run makes that again, from the seed."""
    state = {"backend": keras.backend.backend(), "random": {}, "params": stored_params(params)}
    numbers = {"best_epoch": 0, "accum_steps": 1}
    return Checkpoint({}, {**TrainingProgress().to_dict(), RUNNING: None, **state, **numbers})


def stored_params(params: Params) -> dict[str, Any]:
    """Return the params in the form that a checkpoint stores, without those that name the directory of the run."""
    directory = None if params.output_dir is None else Path(params.output_dir)
    encoded = encode(without_cluster(params), directory)
    # The name of the scenario's class is in the params file, for programs that start from it.
    encoded["scenario"] = {name: value for name, value in encoded["scenario"].items() if name != "scenario_id"}
    return {name: value for name, value in encoded.items() if name not in _DIRECTORY_FIELDS}


def without_cluster(params: Params) -> Params:
    """Return a copy without the processes of a cluster, which may be others whenever the run is started."""
    stored = copy.copy(params)
    stored.device = params.device.without_cluster()
    return stored


def _random_state() -> dict[str, Any]:
    """Return the states of the global generators of Python, NumPy and Keras, for user code that draws from them."""
    of_keras = global_random_state()  # first: if it is created here, it takes its seed from the generator of Python
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        "keras": of_keras,
    }


def _set_random_state(state: Mapping[str, Any]) -> None:
    # Before the others, for the same reason.
    set_global_random_state(state["keras"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))
