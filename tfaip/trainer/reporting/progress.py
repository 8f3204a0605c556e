"""Progress and results of a training as text: lines per minute, results of epochs, a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from tfaip.trainer.reporting.epochtable import EpochResult, EpochTable, value_text
from tfaip.util.logging import CONSOLE_TEXT, log_duration, logger
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

LINE_EVERY_S = 60.0

log = logger(__name__)


class ProgressDisplay:
    """Display of the progress of an epoch. This one shows nothing."""

    table_rows = 0
    """Number of epochs in the table that it shows instead of a row for each epoch; 0: it shows none."""

    def start(self, description: str, total: int | None, done: int) -> None:
        """Begin an epoch or a validation of `total` batches (None: not known), of which `done` are finished."""

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        """Show that `done` batches are finished; `values` reads the running means, which waits for the device."""

    def stop(self) -> None:
        """End the display, after the epoch or after an error."""

    def show_table(self, text: Callable[[int], str]) -> None:
        """Show a table of the last epochs from now on; `text` returns it with at most so many rows."""

    def close(self) -> None:
        """Leave the table of the last epochs on the screen, after the last one."""


class ProgressLines(ProgressDisplay):
    """A line per minute, for output that is no terminal.

    Args:
        clock: returns a time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock

    def start(self, description: str, total: int | None, done: int) -> None:
        self._description, self._total, self._done_before = description, total, done
        self._started = self._clock()
        self._next_line = self._started + LINE_EVERY_S

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        now = self._clock()
        if now < self._next_line or done == self._total:
            return
        self._next_line = now + LINE_EVERY_S
        rate = (done - self._done_before) / (now - self._started)
        texts = [f"batch {done}", f"{rate:.3g} batches/s"]
        if self._total is not None:
            texts[0] += f" of {self._total}"
            if rate > 0:
                texts.append(f"{duration_text((self._total - done) / rate)} left")
        texts += [f"{name} {value_text(value)}" for name, value in values().items()]
        log.info("%s: %s", self._description, ", ".join(texts))


def duration_text(seconds: float) -> str:
    """Return `1:02:03`, or `2:03` below an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class TimedStart(ProgressDisplay):
    """Display that logs how long the first batches of a training took, if that was long.

    They are traced and compiled, and wait for the first data.

    Args:
        display: shows the progress.
        clock: returns a time in seconds.
    """

    def __init__(self, display: ProgressDisplay, clock: Callable[[], float] = time.monotonic) -> None:
        self.display = display
        self.table_rows = display.table_rows
        self.show_table, self.close = display.show_table, display.close  # type: ignore[method-assign]
        self._clock = clock
        self._started = 0.0
        self._is_first = True

    def start(self, description: str, total: int | None, done: int) -> None:
        if self._is_first:
            self._started = self._clock()
        self.display.start(description, total, done)

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        if self._is_first:
            self._is_first = False
            log_duration(log, "tracing, compiling and the first batches", self._clock() - self._started)
        self.display.advance(done, values)

    def stop(self) -> None:
        self.display.stop()


def result_line(epoch: int, logs: Logs) -> str:
    """Return `Results of epoch 0007 loss: 0.1234 - lr: 3.1e-05`, sorted by name.

    Tools of users parse the line from `train.log`: never change its form.
    """
    values = " - ".join(f"{name}: {number_text(value)}" for name, value in sorted(logs.items()))
    return f"Results of epoch {epoch:04d} {values}"


def log_epoch(result: EpochResult, table: EpochTable, display: ProgressDisplay) -> None:
    """Log the results of an epoch: the line that tools parse, and on the console the row of the table.

    Args:
        result: of the epoch.
        table: gets the row.
        display: may show the last rows itself.
    """
    line, row = result_line(result.epoch, result.values), table.add(result)
    if display.table_rows:
        display.show_table(table.last)
        row = ""
    log.info("%s", line, extra={CONSOLE_TEXT: row})


def log_summary(rows: Mapping[str, str]) -> None:
    """Log the last lines of a run: aligned `name  value` pairs."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        log.info("%s  %s", name.ljust(width), value)
