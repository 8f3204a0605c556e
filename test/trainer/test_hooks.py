"""Callback lists that run after every execution of the compiled step, called as `fit` and `evaluate` call them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from test.model.support import FunctionModel, training_model
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.stepcallbacks import StepCallbacks, ValidationSteps, has_batch_methods, python_logs
from tfaip.util.typing import Logs


class Display:
    """Display that records what it is told."""

    def __init__(self) -> None:
        self.advanced: list[tuple[int, Logs]] = []

    def start(self, description: str, total: int | None, done: int) -> None:
        pass

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        self.advanced.append((done, values()))

    def stop(self) -> None:
        pass


def tiny_model() -> TrainingModel:
    return training_model(FunctionModel(lambda inputs, targets, outputs: {"loss": outputs["y"]}), steps_per_execution=2)


class Steps(StepCallbacks):
    """Records the numbers of batches after which it is called, and the loss at the beginning of each epoch."""

    def __init__(self, total: int | None, done: int = 0, stop_at: int | None = None) -> None:
        self.display = Display()
        super().__init__(tiny_model(), self.display, total, done)
        self.steps: list[int] = []
        self.first_losses: list[float] = []
        self.stop_at = stop_at

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.first_losses.append(float(self._training_model.metrics[0].result()))

    def on_step_end(self, step: int) -> bool:
        self.steps.append(step)
        return step == self.stop_at


def arrays(batches: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return {"x": np.ones((batches, 1), np.float32)}, {"y": np.ones((batches, 1), np.float32)}


def fit(callbacks: Steps, batches: int) -> None:
    data, model = arrays(batches), callbacks._training_model
    model.fit(data, batch_size=1, shuffle=False, verbose=0, callbacks=callbacks, steps_per_epoch=batches)


@pytest.mark.backend
def test_trained_batches_are_counted_also_in_a_partial_execution() -> None:
    callbacks = Steps(total=5)
    fit(callbacks, 5)
    assert callbacks.steps == [2, 4, 5]
    assert [step for step, _ in callbacks.display.advanced] == [2, 4, 5]
    assert [set(logs) for _, logs in callbacks.display.advanced] == [{"loss"}] * 3


def test_a_resumed_epoch_continues_to_count() -> None:
    callbacks = Steps(total=8, done=3)
    fit(callbacks, 5)
    assert callbacks.steps == [5, 7, 8]


def test_the_end_of_a_step_may_stop_the_epoch() -> None:
    callbacks = Steps(total=9, stop_at=4)
    fit(callbacks, 9)
    assert callbacks.steps == [2, 4]


def test_the_end_of_a_step_may_stop_an_evaluation() -> None:
    callbacks = Steps(total=None, stop_at=2)
    callbacks._training_model.evaluate(arrays(6), batch_size=1, verbose=0, callbacks=callbacks)
    assert callbacks.steps == [2]


def test_a_validation_stops_when_it_is_asked_to() -> None:
    display, model = Display(), tiny_model()
    steps = ValidationSteps(model, display, should_stop=lambda: len(display.advanced) == 2)
    model.evaluate(arrays(8), batch_size=1, verbose=0, callbacks=steps)
    assert [step for step, _ in display.advanced] == [2, 4]


def test_an_epoch_begins_after_the_reset_of_the_metrics() -> None:
    callbacks = Steps(total=2)
    fit(callbacks, 2)
    fit(callbacks, 2)
    assert callbacks.first_losses == [0.0, 0.0]


def test_values_of_the_device_become_floats() -> None:
    logs = python_logs({"a": keras.ops.ones(()), "b": np.float32(0.5), "c": 1})
    assert logs == {"a": 1.0, "b": 0.5, "c": 1.0}
    assert all(type(value) is float for value in logs.values())
    assert python_logs(None) == {}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("on_train_batch_end", True),
        ("on_train_batch_begin", True),
        ("on_test_batch_end", True),
        ("on_batch_begin", True),
        ("on_epoch_end", False),
        ("on_test_end", False),
    ],
)
def test_batch_methods_are_found(method: str, expected: bool) -> None:
    callback = type("Callback", (keras.callbacks.Callback,), {method: lambda self, *args: None})()
    assert has_batch_methods([keras.callbacks.Callback(), callback]) is expected
    assert not has_batch_methods([])
