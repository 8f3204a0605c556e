"""The state of a training: everything that a resumed run needs to go on as if it had never stopped."""

from __future__ import annotations

import copy
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras.src.backend.common import global_state
from keras.src.random import seed_generator

from tfaip.data.pipeline.stream import Position
from tfaip.errors import TfaipError
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import assign_arrays, variable_arrays
from tfaip.params.encoding import encode
from tfaip.trainer.checkpoint import Checkpoint
from tfaip.trainer.history import History
from tfaip.trainer.params import TrainerParams
from tfaip.util.text import shorten, shorten_text

METRICS = "metrics/"
BEST_WEIGHTS = "best_weights/"
_ABOUT_THE_DIRECTORY = ("output_dir", "overwrite")
# Of the state of a checkpoint, besides its arrays.
_PARTS: Mapping[str, type] = {
    **dict.fromkeys(("epoch", "step", "samples", "best_epoch"), int),
    **dict.fromkeys(("position", "history", "random", "params"), dict),
    "backend": str,
}


@dataclass
class Progress:
    """How far the training is.

    Args:
        epoch: completed epochs.
        step: batches of the running epoch that are trained; 0 between epochs.
        samples: samples in these batches.
        seconds: what the running epoch took in earlier processes, and in this one up to the last checkpoint.
        position: where the stream of training samples stands after these batches.
        history: records of the completed epochs.
    """

    epoch: int = 0
    step: int = 0
    samples: int = 0
    seconds: float = 0.0
    position: Position = field(default_factory=Position)
    history: History = field(default_factory=History)


@dataclass(frozen=True)
class Volatile:
    """The part of the state that an evaluation changes.

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
        params: the params of the run, which a checkpoint names as those that it was trained with.
    """

    def __init__(self, model: TrainingModel, params: TrainerParams[Any, Any]) -> None:
        self.progress = Progress()
        self._model = model
        self._params = params
        self._best_epoch = 0
        self._best_weights: dict[str, np.ndarray] = {}

    def keep_best(self, epoch: int) -> None:
        """Keep a copy of the weights, raw and not averaged, as those of the best epoch."""
        self._best_epoch, self._best_weights = epoch, variable_arrays(self._weights_by_path())

    def restore_best(self) -> int | None:
        """Go back to the kept weights; averages and moments begin anew, gradients that wait are forgotten.

        Returns:
            the epoch that they are of; None, and nothing has changed, if none are kept: no score was finite yet, or
            the run has begun without keeping them.
        """
        if not self._best_weights:
            return None
        assign_arrays(self._weights_by_path(), self._best_weights, "the best epoch")
        self._model.optimizer.reset()
        return self._best_epoch

    def capture(self, before: Volatile | None = None) -> Checkpoint:
        """A copy of the whole state.

        Args:
            before: what an evaluation has changed since, as it was before.
        """
        arrays = variable_arrays(self._variables())
        if before is not None:
            arrays.update(before.arrays)
        progress = self.progress
        state = {
            "epoch": progress.epoch,
            "step": progress.step,
            "samples": progress.samples,
            "seconds": progress.seconds,
            "position": progress.position.to_dict(),
            "history": progress.history.to_dict(),
            "backend": keras.backend.backend(),
            "random": _random_state() if before is None else before.random,
            "params": stored_params(self._params),
            "best_epoch": self._best_epoch,
        }
        arrays.update({BEST_WEIGHTS + path: array for path, array in self._best_weights.items()})
        return Checkpoint(arrays, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Set the whole state.

        Raises:
            TfaipError: the checkpoint belongs to another model or other params.
        """
        variables = self._variables()
        arrays = {name: a for name, a in checkpoint.arrays.items() if not name.startswith(BEST_WEIGHTS)}
        best = {name.removeprefix(BEST_WEIGHTS): a for name, a in checkpoint.arrays.items() if name not in arrays}
        if checkpoint.state["step"] == 0:
            # Between epochs the accumulators hold nothing of use, and another metric is no other model.
            variables = {name: v for name, v in variables.items() if not name.startswith(METRICS)}
            arrays = {name: a for name, a in arrays.items() if not name.startswith(METRICS)}
        assign_arrays(variables, arrays, "the checkpoint")
        try:
            self.progress = Progress(
                epoch=checkpoint.state["epoch"],
                step=checkpoint.state["step"],
                samples=checkpoint.state["samples"],
                seconds=checkpoint.state.get("seconds", 0.0),
                position=Position.from_dict(checkpoint.state["position"]),
                history=History.from_dict(checkpoint.state["history"]),
            )
            _set_random_state(checkpoint.state["random"])
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise TfaipError(f"the state of the checkpoint is damaged: {shorten_text(str(error), 150)}") from error
        self._best_epoch, self._best_weights = checkpoint.state["best_epoch"], best

    def volatile(self) -> Volatile:
        """A copy of what an evaluation changes: metric accumulators, and random states if the graph draws there."""
        untrained = {id(v) for v in self._model.graph.non_trainable_variables}
        weights = {f"weights/{p}": v for p, v in variables_by_path(self._model.graph).items() if id(v) in untrained}
        return Volatile(variable_arrays({**weights, **self._metric_variables()}), _random_state())

    def metric_arrays(self) -> dict[str, np.ndarray]:
        """A copy of the metric accumulators."""
        return variable_arrays(self._metric_variables())

    def assign_metrics(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Set the metric accumulators."""
        assign_arrays(self._metric_variables(), arrays, "the metrics")

    def _variables(self) -> dict[str, keras.Variable]:
        weights = variables_by_path(self._model.graph)
        optimizer = self._model.optimizer.named_variables(weights)
        named = {f"weights/{name}": v for name, v in weights.items()}
        named.update({f"optimizer/{name}": v for name, v in optimizer.items()})
        named.update(self._metric_variables())
        return named

    def _weights_by_path(self) -> dict[str, keras.Variable]:
        """The weights of the graph, without states of random generators, which only go forward."""
        weights = {id(weight) for weight in self._model.graph.weights}
        return {path: v for path, v in variables_by_path(self._model.graph).items() if id(v) in weights}

    def _metric_variables(self) -> dict[str, keras.Variable]:
        return {
            f"{METRICS}{metric.name}/{i}": variable
            for metric in self._model.metrics
            for i, variable in enumerate(metric.variables)
        }


def require_state(state: Mapping[str, Any]) -> None:
    """Raise unless the state of a checkpoint has all parts, each of its type.

    Raises:
        TfaipError: one is missing, or is something else; it is named.
    """
    seconds = state.get("seconds", 0.0)  # added later
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise TfaipError(f"the state of the checkpoint has {shorten(seconds)} as seconds: it is damaged")
    for name, kind in _PARTS.items():
        value = state.get(name)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise TfaipError(f"the state of the checkpoint has {shorten(value)} as {name}: it is damaged")


def stored_params(params: TrainerParams[Any, Any]) -> dict[str, Any]:
    """The params in the form that a checkpoint stores, without what says where a run is written."""
    directory = None if params.output_dir is None else Path(params.output_dir)
    started = copy.copy(params)
    started.device = params.device.without_cluster()
    encoded = encode(started, directory)
    return {name: value for name, value in encoded.items() if name not in _ABOUT_THE_DIRECTORY}


def flat_params(value: Any, path: str = "") -> dict[str, Any]:
    """Dotted path -> value of stored params; a list without params in it is a value."""
    if isinstance(value, dict):
        parts: dict[Any, Any] = value
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        parts = dict(enumerate(value))
    else:
        return {path: value}
    flat = (flat_params(item, f"{path}.{name}" if path else str(name)) for name, item in parts.items())
    return {name: item for part in flat for name, item in part.items()}


def _random_state() -> dict[str, Any]:
    """States of the global generators of Python, NumPy and Keras, for user code that draws from them."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    drawn_from = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
        # Made by the first draw without a seed; None: there was none.
        "keras": None if drawn_from is None else keras.ops.convert_to_numpy(drawn_from.state).tolist(),
    }


def _set_random_state(state: Mapping[str, Any]) -> None:
    if state.get("keras") is not None:
        # First: if it is made here, it takes its seed from the generator of Python.
        seed_generator.global_seed_generator().state.assign(state["keras"])
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.asarray(keys, dtype=np.uint32), *rest))
