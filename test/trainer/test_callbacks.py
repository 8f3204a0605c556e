"""Callbacks of the user: what they see, and what they may do."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import keras
import pytest

from test.trainer.line import CallbackOf, LineScenario, Weights, line_params, train
from tfaip.errors import UsageError

TRAINING = {"loss", "loss/mean_epoch", "distance"}
ALL = TRAINING | {f"val_{name}" for name in TRAINING}


class Recorder(keras.callbacks.Callback):
    """Writes down every call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any, dict[str, float]]] = []

    def names(self) -> list[Any]:
        return [name if number is None else (name, number) for name, number, _ in self.calls]

    def logs_of(self, name: str) -> list[dict[str, float]]:
        return [logs for called, _, logs in self.calls if called == name]

    def on_train_begin(self, logs: Any = None) -> None:
        self.calls.append(("train_begin", None, dict(logs or {})))

    def on_train_end(self, logs: Any = None) -> None:
        self.calls.append(("train_end", None, dict(logs or {})))

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch_begin", epoch, dict(logs or {})))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self.calls.append(("epoch_end", epoch, dict(logs or {})))


class BatchRecorder(Recorder):
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("batch_begin", batch, dict(logs or {})))

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("batch_end", batch, dict(logs or {})))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        self.calls.append(("test_batch_end", batch, dict(logs or {})))


def test_order_and_complete_logs() -> None:
    recorder = Recorder()
    logs = LineScenario.create_trainer(line_params([1, 2], [1], epochs=2)).train([recorder])
    assert recorder.names() == [
        "train_begin",
        *(("epoch_begin", 0), ("epoch_end", 0), ("epoch_begin", 1), ("epoch_end", 1)),
        "train_end",
    ]
    first, second = recorder.logs_of("epoch_end")
    assert set(first) == set(second) == ALL
    assert (first["loss"], first["val_loss"]) == pytest.approx((-1.0, -3.0))  # w: 0, -1, -3
    assert second == logs
    assert recorder.logs_of("train_end") == [logs]


def test_the_validation_begins_and_ends() -> None:
    calls: list[Any] = []
    callback = CallbackOf(
        on_test_begin=lambda logs=None: calls.append("begin"),
        on_test_end=lambda logs=None: calls.append(logs),
        on_epoch_end=lambda epoch, logs=None: calls.append(epoch),
    )
    LineScenario.create_trainer(line_params([1, 2], [1], epochs=3, val_every_n=2)).train([callback])
    # Losses w * x with w = -3 after each epoch more; epoch 0 has no validation, the last one always has.
    values = [{"loss": loss, "loss/mean_epoch": loss, "distance": -loss} for loss in (-6.0, -9.0)]
    assert calls == [0, "begin", values[0], 1, "begin", values[1], 2]


def test_an_interrupted_validation_leaves_no_thread_of_a_callback(tmp_path: Path) -> None:
    def fail(batch: int, logs: Any = None) -> None:
        raise ZeroDivisionError("mine")

    # Keras would call the second one from a pool of threads, since it has nothing to do while training.
    class Batches(keras.callbacks.Callback):
        async_safe = True

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            threads.append(threading.current_thread())

    threads: list[threading.Thread] = []
    with pytest.raises(ZeroDivisionError, match="mine"):
        train(line_params([1], [1], tmp_path / "run"), Batches(), CallbackOf(on_test_batch_begin=fail))
    with pytest.raises(ZeroDivisionError, match="mine"):
        train(line_params([1], [1]), Batches(), CallbackOf(on_epoch_end=fail))
    assert threads == [threading.current_thread()]
    assert "the run ended with ZeroDivisionError: mine" in (tmp_path / "run" / "train.log").read_text()


@pytest.mark.parametrize("steps_per_execution", [1, 2])
def test_batch_hooks(steps_per_execution: int) -> None:
    recorder = BatchRecorder()
    params = line_params([1, 2, 3], [1, 1], steps_per_execution=steps_per_execution)
    LineScenario.create_trainer(params).train([recorder])
    expected = {
        1: [("batch_begin", 0), ("batch_end", 0), ("batch_begin", 1), ("batch_end", 1)]
        + [("batch_begin", 2), ("batch_end", 2), ("test_batch_end", 0), ("test_batch_end", 1)],
        # Two batches at a time; the last execution has one.
        2: [("batch_begin", 0), ("batch_end", 1), ("batch_begin", 2), ("batch_end", 2), ("test_batch_end", 1)],
    }[steps_per_execution]
    assert [call for call in recorder.names() if "batch" in call[0]] == expected
    # Means up to the batch: losses 0, -1 * 2, -3 * 3.
    losses = [logs["loss"] for logs in recorder.logs_of("batch_end")]
    assert losses == pytest.approx({1: [0.0, -1.0, -11 / 3], 2: [-1.0, -11 / 3]}[steps_per_execution])
    assert all(type(value) is float for logs in recorder.logs_of("batch_end") for value in logs.values())
    assert set(recorder.logs_of("batch_end")[-1]) == {"loss", "distance"}


def test_the_old_names_of_batch_hooks() -> None:
    class Old(keras.callbacks.Callback):
        batches = 0

        def on_batch_end(self, batch: int, logs: Any = None) -> None:
            self.batches += 1

    old = Old()
    train(line_params([1, 2, 3], steps_per_execution=1), old)
    assert old.batches == 3


def stop_in(method: str) -> keras.callbacks.Callback:
    """Sets `model.stop_training` in the first call of a method."""

    def stop(self: keras.callbacks.Callback, number: int, logs: Any = None) -> None:
        if number == 0:
            self.model.stop_training = True

    return type("Stop", (keras.callbacks.Callback,), {method: stop})()


@pytest.mark.parametrize("method", ["on_epoch_begin", "on_train_batch_end", "on_test_batch_end"])
def test_stop_training_ends_after_the_epoch(method: str, tmp_path: Path) -> None:
    weights, recorder = Weights(), Recorder()
    params = line_params([1, 2, 3], [1, 1], tmp_path / "run", epochs=5, steps_per_execution=1)
    params.export_final = True
    train(params, stop_in(method), weights, recorder)
    # The epoch is complete, and so is its end: validation, checkpoint, export.
    assert weights.values == [-6.0]
    assert recorder.names()[-2:] == [("epoch_end", 0), "train_end"]
    assert set(recorder.logs_of("train_end")[0]) == ALL
    assert (tmp_path / "run" / "checkpoint" / "epoch_0001").is_dir()
    assert (tmp_path / "run" / "export").is_dir()


def test_a_stop_before_the_first_epoch_is_obeyed(tmp_path: Path) -> None:
    class Stop(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            self.model.stop_training = True

    weights, recorder = Weights(), Recorder()
    train(line_params([1], epochs=3), Stop(), weights, recorder)
    assert weights.values == []
    assert recorder.names() == ["train_begin", "train_end"]


def test_a_stop_of_the_user_does_not_outlive_its_run(tmp_path: Path) -> None:
    train(line_params([1], output_dir=tmp_path / "run", epochs=3), stop_in("on_epoch_end"))
    weights = Weights()
    train(line_params([1], output_dir=tmp_path / "run", epochs=3), weights, restore=True)
    assert weights.values == [-2.0, -3.0]


@pytest.mark.backend
def test_what_a_callback_changes_is_in_the_checkpoint(tmp_path: Path) -> None:
    class Reset(keras.callbacks.Callback):
        def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
            self.model.graph.line.kernel.assign([[100.0]])

    train(line_params([1], output_dir=tmp_path / "run"), Reset())
    weights = Weights()
    train(line_params([1], output_dir=tmp_path / "run", epochs=2), weights, restore=True)
    assert weights.values == [99.0]


def test_logs_are_the_callbacks_own_copy() -> None:
    def spoil(epoch: int, logs: dict[str, float]) -> None:
        logs.clear()

    recorder = Recorder()
    LineScenario.create_trainer(line_params([1])).train([CallbackOf(on_epoch_end=spoil)])
    logs = LineScenario.create_trainer(line_params([1])).train([CallbackOf(on_epoch_end=spoil), recorder])
    assert set(logs) == TRAINING


@pytest.mark.slow
def test_an_error_in_a_callback_is_raised_and_leaves_the_run_resumable(tmp_path: Path) -> None:
    def fail(epoch: int, logs: dict[str, float]) -> None:
        if epoch == 1:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        train(line_params([1], output_dir=tmp_path / "run", epochs=3), CallbackOf(on_epoch_end=fail))
    weights = Weights()
    train(line_params([1], output_dir=tmp_path / "run", epochs=3), weights, restore=True)
    assert weights.values == [-2.0, -3.0]


def test_callbacks_know_model_and_size_of_the_training() -> None:
    recorder = Recorder()
    trainer = train(line_params([1, 2, 3], epochs=2), recorder)
    assert recorder.model.graph is trainer.scenario.graph
    assert recorder.params == {"verbose": 0, "epochs": 2, "steps": 3}


class Halving(keras.callbacks.LearningRateScheduler):
    """A schedule of the user."""


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Halving(lambda epoch: 0.5**epoch), "LearningRateScheduler .* choose --learning_rate Function"),
        (keras.callbacks.ReduceLROnPlateau(), "ReduceLROnPlateau .* choose --learning_rate ReduceOnPlateau"),
    ],
)
def test_a_callback_that_sets_the_rate_is_refused(callback: keras.callbacks.Callback, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(line_params([1.0]), callback)
