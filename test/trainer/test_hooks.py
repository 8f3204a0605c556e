"""What runs at the border of every execution of the compiled step, called as `fit` and `evaluate` call it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from test.model.support import FunctionModel, training_model
from tfaip.model.trainingmodel import TrainingModel
from tfaip.trainer.hooks import StepHooks, has_batch_methods, python_logs
from tfaip.util.typing import Logs

pytestmark = pytest.mark.backend


class Progress:
    """Writes down how far it is told that the epoch is."""

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


def hooks(total: int | None, done: int = 0, stop_at: int | None = None, **kwargs: Any) -> tuple[StepHooks, list[int]]:
    borders: list[int] = []

    def on_border(step: int) -> bool:
        borders.append(step)
        return step == stop_at

    made = StepHooks(tiny_model(), total, done, Progress(), on_border, **kwargs)
    return made, borders


def arrays(batches: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    return {"x": np.ones((batches, 1), np.float32)}, {"y": np.ones((batches, 1), np.float32)}


def fit(made: StepHooks, batches: int) -> None:
    data = arrays(batches)
    made._training_model.fit(data, batch_size=1, shuffle=False, verbose=0, callbacks=made, steps_per_epoch=batches)


def test_borders_count_trained_batches_also_in_a_partial_execution() -> None:
    made, borders = hooks(total=5)
    fit(made, 5)
    assert borders == [2, 4, 5]
    assert [step for step, _ in made._progress.advanced] == [2, 4, 5]
    assert [set(logs) for _, logs in made._progress.advanced] == [{"loss"}] * 3


def test_a_resumed_epoch_goes_on_counting() -> None:
    made, borders = hooks(total=8, done=3)
    fit(made, 5)
    assert borders == [5, 7, 8]


def test_a_border_may_stop_the_epoch() -> None:
    made, borders = hooks(total=9, stop_at=4)
    fit(made, 9)
    assert borders == [2, 4]


def test_evaluation_has_borders_of_its_own() -> None:
    made, borders = hooks(total=None, stop_at=2)
    made._training_model.evaluate(arrays(6), batch_size=1, verbose=0, callbacks=made)
    assert borders == [2]


def test_the_beginning_comes_behind_the_reset_of_the_metrics() -> None:
    seen: list[float] = []
    made, _ = hooks(total=2, on_begin=lambda: seen.append(float(made._training_model.metrics[0].result())))
    fit(made, 2)
    fit(made, 2)
    assert seen == [0.0, 0.0]


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
