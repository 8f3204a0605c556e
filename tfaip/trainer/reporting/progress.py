"""Progress and results of a training as text: a bar on a terminal, results of epochs, a summary."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.epochtable import EpochResult, EpochTable
from tfaip.util.logging import CONSOLE_TEXT, logger
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

REFRESH_S = 0.2

log = logger(__name__)


class ProgressDisplay:
    """Display of the progress of an epoch. This one shows nothing."""

    def start(self, description: str, total: int | None, done: int) -> None:
        """Begin an epoch or a validation of `total` batches (None: not known), of which `done` are finished."""

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        """Show that `done` batches are finished; `values` reads the running means, which waits for the device."""

    def stop(self) -> None:
        """End the display, after the epoch or after an error."""


class ProgressBar(ProgressDisplay):
    """Bar with speed, remaining time, losses, metrics and learning rate, redrawn a few times per second."""

    def __init__(self) -> None:
        self._progress: Any = None
        self._task: Any = None
        self._next_refresh = 0.0

    def start(self, description: str, total: int | None, done: int) -> None:
        # Imported on a terminal only. (The bar of Keras costs 33 us a step.)
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[values]}"),
            transient=True,
            auto_refresh=False,  # no thread, which would take the interpreter lock from the training
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
    """Return True if `trainer.progress_bar_mode` asks for a bar; automatic: on a terminal."""
    return mode is ProgressBarMode.BAR or (mode is ProgressBarMode.AUTO and sys.stdout.isatty())


def create_progress_display(mode: ProgressBarMode) -> ProgressDisplay:
    """Return the display that `trainer.progress_bar_mode` asks for."""
    return ProgressBar() if shows_bar(mode) else ProgressDisplay()


def result_line(epoch: int, logs: Logs) -> str:
    """Return `Results of epoch 0007 loss: 0.1234 - lr: 3.1e-05`, sorted by name.

    Tools of users parse the line from `train.log`: never change its form.
    """
    values = " - ".join(f"{name}: {number_text(value)}" for name, value in sorted(logs.items()))
    return f"Results of epoch {epoch:04d} {values}"


def log_epoch(result: EpochResult, table: EpochTable) -> None:
    """Log the results of an epoch: the line that tools parse, and on the console the row of the table."""
    line = result_line(result.epoch, {**result.values, **result.scheduled})
    log.info("%s", line, extra={CONSOLE_TEXT: table.add(result)})


def log_summary(rows: Mapping[str, str]) -> None:
    """Log the last lines of a run: aligned `name  value` pairs."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        log.info("%s  %s", name.ljust(width), value)
