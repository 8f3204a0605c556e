"""Runs with stages of the scenario with one weight: stops at exact moments, and what equal runs have in common."""

import json
from pathlib import Path
from typing import Any

import keras
import numpy as np

from test.support.runs import files_below, latest, without_seconds
from test.trainer.line import line_params
from tfaip.trainer.stages.params import StageParams, TrainStage

# Written by other processes at other times.
_NOT_COMPARED = ("train.log", "manifest.json")


def staged_params(x: list[float], stages: dict[str, StageParams], epochs: int, **fields: Any) -> Any:
    """Params of a run on `x` with these stages, one batch per sample, whose weight moves by `lr * x`."""
    return line_params(x, stages=stages, epochs=epochs, **fields)


def stage(epochs: int, *, rate_control: bool = True, **overrides: Any) -> TrainStage:
    """A stage; `overrides` have `__` in the place of dots."""
    texts = {name.replace("__", "."): value for name, value in overrides.items()}
    return TrainStage(epochs=epochs, rate_control=rate_control, overrides=texts)


class Seen(keras.callbacks.Callback):
    """Collects what the epochs had: number, training model, compiled step, first weight of the graph."""

    def __init__(self) -> None:
        super().__init__()
        self.epochs: list[int] = []
        self.models: list[Any] = []
        self.steps: list[Any] = []
        self.weights: list[float] = []
        self.lr: list[float] = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.epochs.append(epoch + 1)
        self.models.append(self.model)
        self.steps.append(self.model.train_function)
        self.weights.append(float(np.ravel(keras.ops.convert_to_numpy(self.model.graph.weights[0]))[0]))
        self.lr.append(round(float(self.model.optimizer.schedule.base + 0.0), 6))

    def num_models(self) -> int:
        """Number of training models that the epochs were trained with."""
        return len({id(model) for model in self.models})


def facts_of(run: Path) -> dict[str, Any]:
    """Return all files that equal runs have in common, without times and the place of the run."""
    facts: dict[str, Any] = {}
    newest = f"checkpoint/{latest(run)}/"
    for name, content in files_below(run).items():
        # A stop writes one more checkpoint.
        is_older = name.startswith("checkpoint/epoch") and not name.startswith(newest)
        if is_older or name.endswith(_NOT_COMPARED) or "tfevents" in name:
            continue
        facts[name] = content
        if name.endswith(".json"):
            facts[name] = _comparable(name, json.loads(content.decode().replace(str(run), "RUN")))
    return facts


def _comparable(name: str, value: Any) -> Any:
    if name.endswith("history.json"):
        return without_seconds(value)
    if name.endswith("state.json"):
        rest = {key: part for key, part in value.items() if key not in ("params", "seconds")}
        return {**rest, "history": without_seconds(json.loads(value["history"]))}
    return value


def differences(run: Path, expected: Path) -> list[str]:
    """Names of the files that differ between two runs."""
    ours, theirs = facts_of(run), facts_of(expected)
    return sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
