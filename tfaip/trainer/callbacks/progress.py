"""Progress of an epoch: a bar on a terminal, a line elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tfaip.trainer.params import ProgressBarMode
from tfaip.util.logging import logger
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

REFRESH_S = 0.2


class EpochProgress(Protocol):
    """Shows how far an epoch is."""

    def start(self, description: str, total: int | None, done: int) -> None:
        """An epoch or a validation of `total` batches (None: not known) begins, `done` of which are behind us."""

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        """`done` batches are finished; `values` reads the running means from the device, which is not free."""

    def stop(self) -> None:
        """The epoch is over, or ended by an error."""


class NoProgress:
    """Shows nothing."""

    def start(self, description: str, total: int | None, done: int) -> None:
        pass

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        pass

    def stop(self) -> None:
        pass


class ProgressBar:
    """A bar with speed, remaining time, losses, metrics and learning rate, redrawn a few times per second."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None
        self._next_refresh = 0.0

    def start(self, description: str, total: int | None, done: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[values]}"),
            transient=True,
            auto_refresh=False,  # no thread: it would take the interpreter lock from the training
        )
        self._progress.start()
        self._started, self._done_before = time.monotonic(), done
        self._task = self._progress.add_task(description, total=total, completed=done, rate="", values="")
        self._next_refresh = 0.0

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        now = time.monotonic()
        if now < self._next_refresh:
            return
        self._next_refresh = now + REFRESH_S
        seconds = now - self._started
        rate = f"{(done - self._done_before) / seconds:.0f} batches/s" if seconds > 0 else ""
        text = " ".join(f"{name}={number_text(value)}" for name, value in values().items())
        self._progress.update(self._task, completed=done, rate=rate, values=text, refresh=True)

    def stop(self) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def shows_bar(mode: ProgressBarMode) -> bool:
    """Whether `trainer.progress_bar_mode` asks for a bar; automatic: on a terminal."""
    return mode is ProgressBarMode.BAR or (mode is ProgressBarMode.AUTO and sys.stdout.isatty())


def create_progress(mode: ProgressBarMode) -> EpochProgress:
    """What `trainer.progress_bar_mode` asks for."""
    return ProgressBar() if shows_bar(mode) else NoProgress()


def print_summary(rows: Mapping[str, str]) -> None:
    """The last words of a run: aligned `name  value` lines."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        logger(__name__).info("%s  %s", name.ljust(width), value)
