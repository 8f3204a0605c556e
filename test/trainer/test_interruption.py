"""Signals: a training stops at the next border, and goes on exactly there."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.commands import finish_command, start_python
from test.trainer.line import LineTrainerParams, line_params, train
from tfaip.device.devices import Devices
from tfaip.errors import SIGNAL_EXIT_CODES, TfaipError
from tfaip.trainer.run.output import read_checkpoint
from tfaip.trainer.signals import StopRequest, TrainingInterrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_is_a_flag(number: signal.Signals) -> None:
    before = {number: signal.getsignal(number) for number in SIGNAL_EXIT_CODES}
    stop = StopRequest()
    for _ in range(2):  # it can be used again, and handlers come back after an error
        with pytest.raises(ZeroDivisionError), stop:  # noqa: PT012
            assert stop.received is None
            os.kill(os.getpid(), number)
            assert stop.received is number
            raise ZeroDivisionError
        assert {number: signal.getsignal(number) for number in SIGNAL_EXIT_CODES} == before


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            for number, received in ((signal.SIGINT, None), (signal.SIGTERM, signal.SIGTERM)):
                os.kill(os.getpid(), number)
                assert stop.received is received
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.slow
def test_an_uncaught_stop_has_an_exit_code_and_no_traceback() -> None:
    codes = [TrainingInterrupted(number).exit_code for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    assert codes == [130, 143, 138]
    for kind in (Exception, TfaipError, SystemExit):  # an ordinary exception for who catches it
        with pytest.raises(kind, match="training stopped by SIGINT"):
            raise TrainingInterrupted(signal.SIGINT)
    script = "import signal, tfaip.trainer.signals as s; raise s.TrainingInterrupted(signal.SIGTERM)"
    result = finish_command(start_python("-c", script))
    assert (result.rc, result.stdout, "Traceback" in result.stderr) == (143, "", False)


def test_another_thread_than_the_main_one_is_left_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen: list[Any] = []

    def run() -> None:
        with StopRequest() as stop:
            seen.extend([signal.getsignal(signal.SIGINT), stop.received])

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [before, None]


def test_the_signal_of_a_scheduler_only_asks_however_often_it_comes() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    with StopRequest(Devices(), "SIGUSR1") as stop:
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
            os.kill(os.getpid(), number)
        assert stop.received is signal.SIGUSR1
    assert signal.getsignal(signal.SIGUSR1) is before


def signal_at(method: str, count: int) -> keras.callbacks.Callback:
    """Send SIGTERM in the n-th call of a method."""
    left = iter(range(count, 0, -1))

    def call(*_: Any, **__: Any) -> None:
        if next(left, 0) == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return type("Signal", (keras.callbacks.Callback,), {method: call})()


def params_of(output_dir: Path) -> LineTrainerParams:
    params = line_params([1, 2, 3, 4, 5], [1, 2, 3], output_dir, lr=0.25, epochs=3, steps_per_execution=2)
    params.scenario.model.loss = "square"
    params.scenario.model.start = 1.0
    params.gen.setup.train.shuffle_buffer_size = -1
    params.gen.train.y = [0.5, -0.5, 0.25, 0.0, 1.0]
    params.optimizer.clip_value = 1.0
    return params


def finished(output_dir: Path) -> Any:
    """What a finished run has in its last checkpoint and its history."""
    checkpoint = read_checkpoint(output_dir / "checkpoint" / "epoch_0003")
    arrays = {name: array.tobytes() for name, array in checkpoint.arrays.items()}
    state = {key: checkpoint.state[key] for key in ("epoch", "step", "position", "random")}
    history = json.loads((output_dir / "history.json").read_text())
    return arrays, state, [(epoch["lr"], epoch["values"], epoch["meta"]["updates"]) for epoch in history.values()]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("uninterrupted") / "run"
    train(params_of(directory))
    return finished(directory)


@pytest.mark.guard
@pytest.mark.parametrize(
    ("method", "count", "checkpoint"),
    [
        ("on_train_batch_end", 1, "epoch_0000_step_000002"),
        pytest.param("on_train_batch_end", 5, "epoch_0001_step_000004", marks=pytest.mark.backend),
        # The validation ends at its first border; it is done anew.
        ("on_train_batch_end", 3, "epoch_0000_step_000005"),
        pytest.param("on_test_batch_end", 1, "epoch_0000_step_000005", marks=pytest.mark.backend),
        ("on_epoch_begin", 1, "epoch_0000_step_000002"),
        ("on_epoch_end", 2, "epoch_0002"),
        ("on_epoch_end", 3, "epoch_0003"),
    ],
)
def test_a_stopped_training_goes_on_exactly(method, count, checkpoint, uninterrupted, tmp_path, caplog):
    with caplog.at_level("INFO", logger="tfaip"), pytest.raises(TrainingInterrupted, match="stopped by SIGTERM"):
        train(params_of(tmp_path / "run"), signal_at(method, count))
    assert (tmp_path / "run" / "checkpoint" / "latest").read_text() == f"{checkpoint}\n"
    assert any("SIGTERM: stopped after" in m and "tfaip-resume-training" in m for m in caplog.messages)
    train(params_of(tmp_path / "run"), restore=True)
    assert finished(tmp_path / "run") == uninterrupted


def test_without_checkpoints_the_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="tfaip"), pytest.raises(TrainingInterrupted):
        train(line_params([1], epochs=3), signal_at("on_epoch_end", 1))
    assert "SIGTERM: stopped after epoch 1, without a checkpoint" in caplog.messages


@pytest.mark.slow
def test_checkpoints_by_their_age(tmp_path: Path, uninterrupted: Any) -> None:
    """Those of 1e-9 s are due at each border of two batches."""
    params = params_of(tmp_path / "run")
    params.checkpoint_every_s, params.keep_checkpoints = 1e-9, 99
    train(params)
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoint").glob("epoch_0000*"))
    assert names == ["epoch_0000_step_000002", "epoch_0000_step_000004"]
    train(params_of(tmp_path / "run"), restore=True, checkpoint="epoch_0000_step_000002")
    assert finished(tmp_path / "run") == uninterrupted
