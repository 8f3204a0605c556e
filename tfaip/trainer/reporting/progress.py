"""Progress and results of a training: a bar or lines, results of epochs, a summary."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.epochcolumns import LOSS
from tfaip.trainer.reporting.epochtable import EpochResult, EpochTable, value_text
from tfaip.trainer.run.names import EPOCH_MEAN, split_name
from tfaip.util.logging import CONSOLE_TEXT, log_duration, logger
from tfaip.util.terminal import (
    NOTEBOOK_REFRESH_S,
    REFRESH_S,
    ReplacedLine,
    can_show_bar,
    create_bar,
    is_notebook,
)
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

LINE_EVERY_S = 60.0

log = logger(__name__)


class ProgressDisplay:
    """Display of the progress of an epoch. This one shows nothing."""

    def start(self, description: str, total: int | None, done: int) -> None:
        """Begin an epoch or a validation of `total` batches (None: not known), of which `done` are finished."""

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        """Show that `done` batches are finished; `values` reads the running means, which waits for the device."""

    def stop(self) -> None:
        """End the display, after the epoch or after an error."""


class ProgressLines(ProgressDisplay):
    """Line per minute with speed, remaining time, losses, metrics and learning rate; base of the other displays.

    Args:
        shown: returns the values to show, in their order.
        clock: returns a time in seconds.
    """

    refresh_s = LINE_EVERY_S
    shows_last = False

    def __init__(self, shown: Callable[[Logs], Logs] = dict, clock: Callable[[], float] = time.monotonic) -> None:
        self._shown, self._clock = shown, clock

    def start(self, description: str, total: int | None, done: int) -> None:
        self._description, self._total, self._done_before = description, total, done
        self._started = self._clock()
        self._next = self._started + self.refresh_s

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        now = self._clock()
        if now < self._next or (done == self._total and not self.shows_last):
            return
        self._next = now + self.refresh_s
        rate = (done - self._done_before) / max(now - self._started, 1e-6)
        texts = [f"{name} {value_text(value)}" for name, value in self._shown(values()).items()]
        self.draw(done, rate, ", ".join(texts))

    def draw(self, done: int, rate: float, values: str) -> None:
        """Show the number of finished batches, how many there are per second, and the values."""
        log.info("%s", self.line(done, rate, values))

    def line(self, done: int, rate: float, values: str) -> str:
        """Return `Epoch 3/10: batch 160 of 400, 1.02 batches/s, 3:56 left, loss 0.2500`."""
        texts = [f"batch {done}", f"{rate:.3g} batches/s"]
        if self._total is not None:
            texts[0] += f" of {self._total}"
            if rate > 0:
                texts.append(f"{duration_text((self._total - done) / rate)} left")
        if values:
            texts.append(values)
        return f"{self._description}: {', '.join(texts)}"


class ProgressBar(ProgressLines):
    """Bar on a terminal, drawn again a few times per second."""

    refresh_s = REFRESH_S
    shows_last = True
    _bar: Any = None

    def start(self, description: str, total: int | None, done: int) -> None:
        from rich.progress import TextColumn
        from rich.table import Column

        super().start(description, total, done)
        self._next = self._started
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._bar = create_bar(TextColumn("{task.fields[text]}", markup=False, table_column=rest))
        self._task = self._bar.add_task(description, total=total, completed=done, text="")
        self._bar.start()

    def draw(self, done: int, rate: float, values: str) -> None:
        text = f"{values}, {rate:.3g} batches/s" if values else f"{rate:.3g} batches/s"
        self._bar.update(self._task, completed=done, text=text, refresh=True)

    def stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


class NotebookProgress(ProgressLines):
    """Line in a notebook that is replaced by the next one, and removed at the end of the epoch."""

    refresh_s = NOTEBOOK_REFRESH_S

    def start(self, description: str, total: int | None, done: int) -> None:
        super().start(description, total, done)
        self._line = ReplacedLine()

    def draw(self, done: int, rate: float, values: str) -> None:
        self._line.show(self.line(done, rate, values))

    def stop(self) -> None:
        self._line.close()


def shows_bar(mode: ProgressBarMode) -> bool:
    """Return True if `trainer.progress_bar_mode` asks for a bar; automatic: on a terminal and in a notebook."""
    return mode is ProgressBarMode.BAR or (mode is ProgressBarMode.AUTO and can_show_bar())


def create_progress_display(mode: ProgressBarMode, shown: Callable[[Logs], Logs] = dict) -> ProgressDisplay:
    """Return the display that `trainer.progress_bar_mode` asks for; `shown` returns the values to show, in order."""
    if mode is ProgressBarMode.PLAIN:
        return ProgressDisplay()
    if not shows_bar(mode):
        return ProgressLines(shown)
    return NotebookProgress(shown) if is_notebook() else ProgressBar(shown)


def shown_once(values: Logs, monitor: str, only_loss: str | None) -> Logs:
    """Return values without other names of the loss, the monitored one first.

    Args:
        values: of a training or a validation, without a prefix.
        monitor: name of the value that decides which epoch is the best.
        only_loss: a loss that is `loss` by definition; None: there is none.
    """
    others = (EPOCH_MEAN, only_loss) if LOSS in values else ()
    base = split_name(monitor)[1]
    first = LOSS if base in others else base
    names = sorted((name for name in values if name not in others), key=lambda name: name != first)
    return {name: values[name] for name in names}


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


def log_epoch(result: EpochResult, table: EpochTable) -> None:
    """Log the results of an epoch: the line that tools parse, and on the console the row of the table."""
    log.info("%s", result_line(result.epoch, result.values), extra={CONSOLE_TEXT: table.add(result)})


def log_summary(rows: Mapping[str, str]) -> None:
    """Log the last lines of a run: aligned `name  value` pairs."""
    width = max(len(name) for name in rows)
    for name, value in rows.items():
        log.info("%s  %s", name.ljust(width), value)
