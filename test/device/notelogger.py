"""A logger that notes in the run directory which process calls it."""

from __future__ import annotations

import os
from pathlib import Path

from tfaip.trainer.loggers import LoggedRun, Logger, LoggerParams, RunStatus
from tfaip.util.typing import Logs


class NoteLoggerParams(LoggerParams):
    """Notes in a file."""

    def create(self) -> Logger:
        return NoteLogger()


class NoteLogger(Logger):
    def __init__(self) -> None:
        self.directory = Path()

    def begin(self, run: LoggedRun) -> int:
        self.directory = run.directory
        return self.note("begin", 0)

    def log(self, epoch: int, values: Logs, time_s: float) -> None:
        self.note("log", epoch)

    def finish(self, status: RunStatus) -> None:
        self.note(status.value, 0)

    def note(self, what: str, epoch: int) -> int:
        with (self.directory / "note").open("a") as file:
            file.write(f"{os.getpid()} {what} {epoch}\n")
        return epoch
