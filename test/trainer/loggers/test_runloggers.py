"""What loggers are told, by a logger of a user: stops, resumes, failures, and what a file may choose."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import CallbackOf, LineTrainerParams, line_params, train
from test.trainer.test_resume_changes import StopAfter
from tfaip.errors import UsageError
from tfaip.trainer.loggers import (
    LoggedRun,
    Logger,
    LoggerParams,
    MLflowLoggerParams,
    RunStatus,
    WandBLoggerParams,
    permitted_loggers,
)
from tfaip.trainer.loggers.logger import import_package
from tfaip.trainer.loggers.wandblogger import WandBMode
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.util.typing import Logs

WAIT_S = 60.0


@dataclass
class Stored:
    """A run in the service."""

    params: dict[str, Any]
    name: str
    rows: list[tuple[int, Logs]] = field(default_factory=list)
    status: RunStatus | None = None

    def epochs(self) -> list[int]:
        return [epoch for epoch, _ in self.rows]


class Service:
    """What all loggers of the tests have in common."""

    def __init__(self) -> None:
        self.runs: dict[str, Stored] = {}
        self.begins_to_fail = 0
        self.epoch_to_fail = 0
        self.has_failed = threading.Event()


SERVICE = Service()


class MemoryLoggerParams(LoggerParams):
    """Runs in the memory."""

    def create(self) -> Logger:
        return MemoryLogger()


class MemoryLogger(Logger):
    def __init__(self) -> None:
        self.run: Stored | None = None

    def begin(self, run: LoggedRun) -> int:
        if SERVICE.begins_to_fail:
            SERVICE.begins_to_fail -= 1
            raise ConnectionError("away")
        self.run = SERVICE.runs.setdefault(run.id, Stored(dict(run.params), run.name))
        self.run.status = None
        return max(self.run.epochs(), default=0)

    def log(self, epoch: int, values: Logs, time_s: float) -> None:
        assert self.run is not None
        if epoch == SERVICE.epoch_to_fail:
            SERVICE.epoch_to_fail = 0
            SERVICE.has_failed.set()
            raise OSError("the disk is full")
        self.run.rows.append((epoch, values))

    def finish(self, status: RunStatus) -> None:
        if self.run is not None:
            self.run.status = status


@pytest.fixture(autouse=True)
def service() -> Iterator[Service]:
    vars(SERVICE).update(vars(Service()))
    yield SERVICE
    SERVICE.runs.clear()


def logged_params(directory: Path, epochs: int, **fields: Any) -> LineTrainerParams:
    """A training in which the weight falls by 1 in each epoch: the loss is 0, -1, -2 ..."""
    return line_params([1.0], output_dir=directory, epochs=epochs, loggers=[MemoryLoggerParams()], **fields)


def test_a_resumed_run_continues_the_logged_one(tmp_path: Path, service: Service) -> None:
    train(logged_params(tmp_path / "run", 2))
    ((run_id, run),) = service.runs.items()
    assert (run.name, run.status, run.epochs()) == ("run", RunStatus.FINISHED, [1, 2])
    assert [(values["loss"], values["lr"]) for _, values in run.rows] == [(0.0, 1.0), (-1.0, 1.0)]
    assert (run.params["trainer.epochs"], run.params["train.batch_size"]) == (2, 1)
    assert "trainer.output_dir" not in run.params
    # A process that was killed right after the second checkpoint has not logged this epoch.
    del run.rows[1]
    train(logged_params(tmp_path / "run", 4), restore=True)
    assert list(service.runs) == [run_id]
    assert [(epoch, values["loss"]) for epoch, values in run.rows] == [(1, 0.0), (2, -1.0), (3, -2.0), (4, -3.0)]


def test_a_run_that_is_stopped_and_one_that_fails(tmp_path: Path, service: Service) -> None:
    params = logged_params(tmp_path / "run", 3, steps_per_execution=1)
    with pytest.raises(TrainingInterrupted):
        train(params, StopAfter(1, epoch=2))
    (run,) = service.runs.values()
    assert run.status is RunStatus.STOPPED
    before = run.epochs()

    def fail(epoch: int, logs: Any = None) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train(params, CallbackOf(on_epoch_begin=fail), restore=True)
    assert run.status is RunStatus.FAILED
    assert run.epochs() == before
    train(params, restore=True)
    assert (run.status, run.epochs(), len(service.runs)) == (RunStatus.FINISHED, [1, 2, 3], 1)


def test_epochs_that_are_trained_again_are_those_of_a_new_run(tmp_path: Path, service: Service) -> None:
    train(logged_params(tmp_path / "run", 3, keep_checkpoints=3))
    (before,) = service.runs.values()
    params = logged_params(tmp_path / "run", 3, keep_checkpoints=3)
    params.learning_rate.lr = 2.0
    train(params, restore=True, checkpoint="epoch_0002")
    assert before.epochs() == [1, 2, 3]
    after = [run for run in service.runs.values() if run is not before]
    assert [[(epoch, values["lr"]) for epoch, values in run.rows] for run in after] == [[(1, 1.0), (2, 1.0), (3, 2.0)]]


def test_what_fails_is_repeated_with_one_warning(
    tmp_path: Path, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    service.epoch_to_fail = 2

    def wait(epoch: int, logs: Any = None) -> None:
        assert epoch < 2 or service.has_failed.wait(WAIT_S)

    train(logged_params(tmp_path / "run", 3), CallbackOf(on_epoch_begin=wait))
    (run,) = service.runs.values()
    assert (run.epochs(), run.status) == ([1, 2, 3], RunStatus.FINISHED)
    told = [record.getMessage() for record in caplog.records if "MemoryLogger" in record.getMessage()]
    assert told == [
        "MemoryLogger does not log, the training continues and tries again: OSError: the disk is full",
        "MemoryLogger logs again, also the epochs that it lacked",
    ]


def test_a_service_that_stays_away_is_one_warning(
    tmp_path: Path, service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    service.begins_to_fail = 99
    trainer = train(logged_params(tmp_path / "run", 3))
    assert (trainer.epoch, service.runs) == (3, {})
    told = [record.getMessage() for record in caplog.records if "MemoryLogger" in record.getMessage()]
    assert told == ["MemoryLogger does not log, the training continues and tries again: ConnectionError: away"]
    # All epochs are logged when the run is resumed and the service is back.
    service.begins_to_fail = 0
    train(logged_params(tmp_path / "run", 4), restore=True)
    assert [run.epochs() for run in service.runs.values()] == [[1, 2, 3, 4]]


def test_a_run_that_replaces_another_one_has_its_own_id(tmp_path: Path, service: Service) -> None:
    params = logged_params(tmp_path / "run", 1)
    train(params)
    params.overwrite = True
    train(params)
    assert [run.epochs() for run in service.runs.values()] == [[1], [1]]
    assert json.loads((tmp_path / "run/loggers/logged.json").read_text()) == {"id": list(service.runs)[1], "epoch": 1}
    params.loggers, params.overwrite = [], True
    train(params)
    assert not (tmp_path / "run/loggers").exists()


def test_a_trial_logs_nothing(tmp_path: Path, service: Service) -> None:
    from test.trainer.line import LineScenario

    LineScenario.create_trainer(logged_params(tmp_path / "run", 3)).dry_run()
    assert (service.runs, list(tmp_path.iterdir())) == ({}, [])


def test_loggers_write_to_the_run_directory_alone(tmp_path: Path, service: Service) -> None:
    params = logged_params(tmp_path / "run", 1)
    train(params)
    (tmp_path / "other").mkdir()
    # As in a run with a logger of W&B that was moved.
    logs = tmp_path / "run/loggers/wandb/offline-run-1-a/logs"
    logs.mkdir(parents=True)
    (logs / "debug-core.log").symlink_to(tmp_path / "gone")
    params.epochs = 2
    train(params, restore=True)
    (tmp_path / "run/loggers/mlruns").symlink_to(tmp_path / "other")
    params.epochs = 3
    with pytest.raises(UsageError, match="loggers/mlruns is a link: a run writes within its own directory only"):
        train(params, restore=True)
    assert [run.epochs() for run in service.runs.values()] == [[1, 2]]
    params.output_dir = None
    with pytest.raises(UsageError, match="loggers write to the output directory: set --trainer.output_dir"):
        train(params)


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    with pytest.raises(
        UsageError, match=r"logging to X needs missing_x, .*: pip install 'tfaip\[missing_x\]', or leave it out of"
    ):
        import_package("missing_x", "X", {})


@pytest.mark.parametrize("uri", ["file:///mlruns", "mlruns", "http://", "https://me:secret@host", "databricks", "//h"])
def test_addresses_that_are_refused(uri: str) -> None:
    with pytest.raises(ValueError, match="tracking_uri") as error:
        MLflowLoggerParams(tracking_uri=uri)
    if "@" in uri:
        assert "expected an address without a password" in str(error.value)


def test_a_file_chooses_no_destination(caplog: pytest.LogCaptureFixture) -> None:
    typed = [MLflowLoggerParams(tracking_uri="http://a:1", run_name="x"), WandBLoggerParams(mode=WandBMode.ONLINE)]
    loggers = [*typed, WandBLoggerParams(), MLflowLoggerParams()]
    assert permitted_loggers(loggers, ["http://a:1", "W&B, your account"], "--trainer.loggers") == loggers
    assert caplog.messages == []
    allowed = permitted_loggers(loggers, ["http://a:2", "W&B, a team"], "--trainer.loggers")
    assert allowed == [MLflowLoggerParams(run_name="x"), WandBLoggerParams(), *loggers[2:]]
    assert caplog.messages == [
        "--trainer.loggers.0 logs within the run directory: 'http://a:1' was not typed for this run; give it again by "
        "flag",
        "--trainer.loggers.1 logs within the run directory: 'W&B, your account' was not typed for this run; give it "
        "again by flag",
    ]
