"""Callbacks of the user: what they see, and what they may do."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.commands import finish_command, start_command
from test.support.runs import copy_tiny
from test.support.tiny.scenario import TinyScenario
from test.trainer.line import CallbackOf, LineScenario, Weights, line_params, train
from tfaip.errors import UsageError

TRAINING = {"loss", "loss/mean_epoch", "distance"}
ALL = TRAINING | {f"val_{name}" for name in TRAINING}


class Recorder(keras.callbacks.Callback):
    """Writes down every call of some methods."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, Any, dict[str, float]]] = []
        for name in ("train_begin", "train_end", "epoch_begin", "epoch_end"):
            setattr(self, f"on_{name}", partial(self._record, name))

    def _record(self, name: str, *args: Any, **kwargs: Any) -> None:
        number = next((value for value in args if isinstance(value, int)), None)
        logs = next((value for value in (*args, *kwargs.values()) if isinstance(value, dict)), {})
        self.calls.append((name, number, dict(logs)))

    def names(self) -> list[Any]:
        return [name if number is None else (name, number) for name, number, _ in self.calls]

    def logs_of(self, name: str) -> list[dict[str, float]]:
        return [logs for called, _, logs in self.calls if called == name]


def test_order_complete_logs_and_facts_of_the_training() -> None:
    recorder = Recorder()
    spoil = CallbackOf(on_epoch_end=lambda epoch, logs: logs.clear())  # a copy of its own
    trainer = LineScenario.create_trainer(line_params([1, 2], [1], epochs=2))
    logs = trainer.train([recorder, spoil])
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
    assert recorder.model.graph is trainer.scenario.graph
    assert recorder.params == {"verbose": 0, "epochs": 2, "steps": 2}


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


@pytest.mark.parametrize(
    ("steps_per_execution", "expected", "expected_losses"),
    [
        (1, "begin 0, end 0, begin 1, end 1, begin 2, end 2, test_end 0, test_end 1", [0.0, -1.0, -11 / 3]),
        # Two batches at a time; the last execution has one.
        (2, "begin 0, end 1, begin 2, end 2, test_end 1", [-1.0, -11 / 3]),
    ],
)
def test_batch_hooks(steps_per_execution, expected, expected_losses) -> None:
    calls, logged, old = [], [], []

    def note(name: str, batch: int, logs: Any = None) -> None:
        calls.append(f"{name} {batch}")
        if name == "end":
            logged.append(dict(logs))

    names = {"on_train_batch_begin": "begin", "on_train_batch_end": "end", "on_test_batch_end": "test_end"}
    # Attributes, and no methods of a class.
    batches = keras.callbacks.LambdaCallback(**{method: partial(note, name) for method, name in names.items()})
    former = keras.callbacks.LambdaCallback(on_batch_end=lambda batch, logs=None: old.append(batch))
    train(line_params([1, 2, 3], [1, 1], steps_per_execution=steps_per_execution), batches, former)
    assert ", ".join(calls) == expected
    assert len(old) == len(expected_losses)
    # Means up to the batch: losses 0, -1 * 2, -3 * 3.
    assert [logs["loss"] for logs in logged] == pytest.approx(expected_losses)
    assert all(type(value) is float for logs in logged for value in logs.values())
    assert set(logged[-1]) == {"loss", "distance"}


@pytest.mark.parametrize(
    "method", ["on_train_begin", "on_epoch_begin", "on_train_batch_end", "on_log", "on_test_batch_end"]
)
def test_stop_training_ends_after_the_epoch(method: str, tmp_path: Path) -> None:
    def ask(number: Any = 0, logs: Any = None) -> None:
        stop.model.stop_training = True

    stop, weights, recorder, run = CallbackOf(**{method: ask}), Weights(), Recorder(), tmp_path / "run"
    params = line_params([1, 2, 3], [1, 1], run, epochs=5, log_every_n_updates=1, export_final=True)
    train(params, stop, weights, recorder)
    if method == "on_train_begin":
        assert (weights.values, recorder.names()) == ([], ["train_begin", "train_end"])
        return
    # The epoch is complete, and so is its end: validation, checkpoint, export.
    assert weights.values == [-6.0]
    assert recorder.names()[-2:] == [("epoch_end", 0), "train_end"]
    assert set(recorder.logs_of("train_end")[0]) == ALL
    assert (run / "checkpoint" / "epoch_0001").is_dir()
    assert (run / "export").is_dir()
    train(params, weights, restore=True)  # which goes on
    assert weights.values == [-6.0, -12.0, -18.0, -24.0, -30.0]


@pytest.mark.slow
def test_an_error_in_a_callback_is_raised_and_leaves_the_run_resumable(tmp_path: Path) -> None:
    def fail(epoch: int, logs: dict[str, float]) -> None:
        if epoch == 1:
            raise ZeroDivisionError("mine")

    params, weights = line_params([1], output_dir=tmp_path / "run", epochs=3), Weights()
    with pytest.raises(ZeroDivisionError, match="mine"):
        train(params, CallbackOf(on_epoch_end=fail))
    assert "the run ended with ZeroDivisionError: mine" in (tmp_path / "run" / "train.log").read_text()
    train(params, weights, restore=True)
    assert weights.values == [-2.0, -3.0]


def test_a_callback_that_sets_the_rate_is_refused() -> None:
    for callback, choice in [
        (keras.callbacks.LearningRateScheduler(lambda epoch: 0.5**epoch), "Function"),
        (keras.callbacks.ReduceLROnPlateau(), "ReduceOnPlateau"),
    ]:
        with pytest.raises(UsageError, match=f"{type(callback).__name__} .* choose --learning_rate {choice}"):
            train(line_params([1.0]), callback)


CODE = """
import keras


class Tell(keras.callbacks.Callback):
    def __init__(self, scenario, params):
        super().__init__()
        self.text = f"{type(scenario).__name__} of {params.epochs}"

    def on_epoch_end(self, epoch, logs=None):
        print("told", epoch + 1, self.text, "val_loss" in logs)


def stopper():
    return keras.callbacks.LambdaCallback(on_epoch_end=stop)


def stop(epoch, logs):
    print("stop", epoch + 1)


class Needs(keras.callbacks.Callback):
    def __init__(self, accuracy):
        super().__init__()
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy_tiny(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


@pytest.mark.slow
def test_named_callbacks_are_called_and_built_again_by_a_resume(project: Path) -> None:
    def run(state: str, *command: str) -> tuple[int, list[str], str]:
        env = {"XDG_STATE_HOME": str(project / state)}
        result = finish_command(start_command(*command, cwd=project, env=env))
        told = [line for line in result.stdout.splitlines() if line.startswith(("told", "stop"))]
        return result.rc, told, result.stderr

    flags = ["--trainer.output_dir", "run", "--trainer.epochs", "1", "--trainer.callbacks", "mine:Tell", "mine:stopper"]
    assert run("state", "train", "tiny", *flags) == (0, ["told 1 TinyScenario of 1 True", "stop 1"], "")
    resumed = run("state", "resume_training", "run", "--trainer.epochs", "2")
    assert resumed == (0, ["told 2 TinyScenario of 2 True", "stop 2"], "")
    # Another user has not typed the names.
    code, told, error = run("other", "resume_training", "run")
    assert (code, told) == (2, [])
    assert "--trust mine" in error


def test_mistakes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    params = TinyScenario.default_trainer_params()
    for name, message in [
        ("mine:Needs", "expected a function of params, scenario; it needs 'accuracy'"),
        ("mine:Gone", "--trainer.callbacks.0 is 'mine:Gone', expected a function that module mine has"),
        ("Tell", "callbacks.0 is 'Tell', expected module:function"),
    ]:
        params.output_dir, params.callbacks = str(project / "run"), [name]
        with pytest.raises(ValueError, match=re.escape(message)):
            TinyScenario.create_trainer(params).train()
        assert not (project / "run").exists()
    # Programs name callbacks as the command line does.
    for given in (["keras.callbacks:History"], "keras.callbacks:History keras.callbacks:TerminateOnNaN"):
        params.set_flags({"trainer.callbacks": given})
        assert params.callbacks == (given.split() if isinstance(given, str) else given)
    with pytest.raises(UsageError, match=r"callbacks\[0\] is 'tell', expected module:function"):
        params.set_flags({"trainer.callbacks": ["tell"]})
