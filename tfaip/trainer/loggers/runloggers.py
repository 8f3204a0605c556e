"""All loggers of a run: what they are sent, and the thread that calls them."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.loggers.logger import LoggedRun, Logger, RunStatus
from tfaip.util.files import write_json
from tfaip.util.logging import logger as log_of
from tfaip.util.manifest import read_json_object
from tfaip.util.text import shorten_text
from tfaip.util.typing import Logs

log = log_of(__name__)

LOGGED_FILE = "logged.json"
"""File in the directory of the loggers: id of the logged run, and the last epoch that was given to the loggers."""
_ID = re.compile(r"[0-9a-f]{16}", re.ASCII)
# A link with an absolute path that W&B makes and never writes to; it leads elsewhere when the run has been moved.
_LOG_OF_WANDB = "wandb/*run-*/logs/debug-core.log"
# The same failure of a logger is told again after this time.
_WARN_AGAIN_S = 3600.0
# Time that the end of a training waits for its loggers; a process that was asked to stop may be killed soon.
_LONGEST_END_S = {RunStatus.FINISHED: 120.0, RunStatus.FAILED: 60.0, RunStatus.STOPPED: 10.0}


@dataclass(frozen=True)
class LoggedEpoch:
    """The values of an epoch.

    Args:
        number: from 1.
        values: of the history, and the learning rate.
        time_s: when it ended, in seconds since 1970.
    """

    number: int
    values: Logs
    time_s: float

    @classmethod
    def of(cls, number: int, record: EpochRecord) -> LoggedEpoch:
        """Return the values of an epoch that ends now."""
        rate = record.lr if record.effective_lr is None else record.effective_lr
        values = dict(record.values) if rate is None else {**record.values, "lr": rate}
        return cls(number, values, time.time())


@dataclass
class _Target:
    """A logger, and the epochs that it has not logged yet.

    Args:
        logger: the logger.
        logged: last epoch of the logged run; None: `begin` has not succeeded yet.
        pending: epochs to be logged.
        warned_at: time of the last warning; None: there was none since it has logged.
    """

    logger: Logger
    logged: int | None = None
    pending: deque[LoggedEpoch] = field(default_factory=deque)
    warned_at: float | None = None

    def send(self, run: LoggedRun) -> None:
        """Begin the logged run if that has not been done, and log all epochs that it lacks."""
        if self.logged is None:
            self.logged = self.logger.begin(run)
        while self.pending:
            epoch = self.pending[0]
            if epoch.number > self.logged:
                self.logger.log(epoch.number, epoch.values, epoch.time_s)
                self.logged = epoch.number
            self.pending.popleft()

    def warn(self, error: BaseException) -> None:
        """Tell a failure, unless that was done lately."""
        now = time.monotonic()
        if self.warned_at is None or now - self.warned_at > _WARN_AGAIN_S:
            self.warned_at = now
            reason = shorten_text(f"{type(error).__name__}: {error}", 200)
            name = type(self.logger).__name__
            log.warning("%s does not log, the training continues and tries again: %s", name, reason)


class RunLoggers:
    """Loggers of a run, which a thread calls, so that a slow or failing one neither delays nor ends the training.

    Args:
        loggers: those of the params; none: the methods do nothing.
        directory: where they may write.

    Raises:
        UsageError: if the directory contains a link that leads out of it.
    """

    def __init__(self, loggers: Sequence[Logger] = (), directory: Path | None = None) -> None:
        if directory is not None and loggers:
            _require_inside(directory)
        self._targets = [_Target(logger) for logger in loggers]
        self._directory = directory
        self._run: LoggedRun | None = None
        self._taken = self._given = 0
        # Epochs to log; the status of the run is the end.
        self._queue: SimpleQueue[LoggedEpoch | RunStatus | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, name: str, scenario: str, params: Mapping[str, Any], history: History) -> None:
        """Begin to log a run, or continue; its epochs so far are logged where they are missing.

        Args:
            name: of the run.
            scenario: name of the class of its scenario.
            params: see `LoggedRun`.
            history: of the epochs so far.
        """
        directory = self._directory
        if directory is None or not self._targets:
            return
        self._run = LoggedRun(self._stored_id(directory, history), name, scenario, params, directory)
        self._thread = threading.Thread(target=self._work, args=(self._run,), name="loggers", daemon=True)
        self._thread.start()
        self._queue.put(None)
        self.log(self.take_new(history))

    def _stored_id(self, directory: Path, history: History) -> str:
        """Return the id of the logged run: a new one if the stored one has epochs that the run has abandoned."""
        try:
            stored = read_json_object(directory / LOGGED_FILE)
        except TfaipError:
            stored = {}
        run_id, epoch = stored.get("id"), stored.get("epoch")
        if not isinstance(run_id, str) or _ID.fullmatch(run_id) is None or not isinstance(epoch, int):
            return secrets.token_hex(8)
        if epoch > _last_epoch(history):
            log.info("logged as a new run: the one so far has epochs up to %d, which are trained again", epoch)
            return secrets.token_hex(8)
        return run_id

    def take_new(self, history: History) -> list[LoggedEpoch]:
        """Return the epochs of a history that were not taken before, to be given to `log`."""
        if self._run is None:
            return []
        new = [epoch for epoch in history.epochs if epoch > self._taken and history[epoch].values]
        self._taken = max(new, default=self._taken)
        return [LoggedEpoch.of(epoch, history[epoch]) for epoch in new]

    def log(self, epochs: Sequence[LoggedEpoch]) -> None:
        """Log epochs; to be called when a run that is killed and resumed cannot repeat them."""
        if self._run is None:
            return
        self._given = epochs[-1].number if epochs else self._given
        try:
            self._run.directory.mkdir(exist_ok=True)
            write_json(self._run.directory / LOGGED_FILE, {"id": self._run.id, "epoch": self._given})
        except (OSError, TfaipError) as error:
            log.warning("a resumed run may be logged as a new one: %s", shorten_text(str(error), 200))
        for epoch in epochs:
            self._queue.put(epoch)

    def finish(self, status: RunStatus) -> None:
        """Wait until all is logged, but not for ever."""
        if self._thread is None:
            return
        self._queue.put(status)
        self._thread.join(_LONGEST_END_S[status])
        if self._thread.is_alive():
            log.warning("the loggers have not logged all epochs yet: the training ends without waiting for them")
        self._thread = self._run = None

    def _work(self, run: LoggedRun) -> None:
        while True:
            item = self._queue.get()
            for target in self._targets:
                if isinstance(item, LoggedEpoch):
                    target.pending.append(item)
                if self._queue.empty():
                    self._send(target, run)
            if isinstance(item, RunStatus):
                self._end(item)
                return

    def _send(self, target: _Target, run: LoggedRun) -> None:
        try:
            target.send(run)
        except BaseException as error:  # noqa: BLE001 (of another library, which must not end the training)
            target.warn(error)
            return
        if target.warned_at is not None:
            target.warned_at = None
            log.info("%s logs again, also the epochs that it lacked", type(target.logger).__name__)

    def _end(self, status: RunStatus) -> None:
        for target in self._targets:
            try:
                target.logger.finish(status)
            except BaseException as error:  # noqa: BLE001 (as above)
                target.warn(error)


def _last_epoch(history: History) -> int:
    return max((epoch for epoch in history.epochs if history[epoch].values), default=0)


def _require_inside(directory: Path) -> None:
    """Raise a `UsageError` if a directory that other libraries write to has a link that leads out of it."""
    root = directory.resolve()
    for path in (directory, *directory.rglob("*")):
        if path.relative_to(directory).match(_LOG_OF_WANDB):
            continue
        if path.is_symlink() and (path == directory or not path.resolve().is_relative_to(root)):
            raise UsageError(
                f"{shorten_text(str(path), 160)} is a link: a run writes within its own directory only; move it away"
            )
