"""Bars that show the progress of an epoch: on a terminal, and in a notebook."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.reporting.progress import ProgressDisplay, ProgressLines, duration_text
from tfaip.util.notebook import NotebookBar, is_notebook
from tfaip.util.terminal import REFRESH_S, can_redraw, can_show_bar, cut, terminal_height, terminal_width
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

BAR_WIDTH = 20
# For the count and the time beside the bar.
COUNTS_WIDTH = 22
# Less is no room for values.
LEAST_ROOM = 12
# Lines of the terminal for the header of a table, the bar, and what comes after it.
LINES_BESIDE = 8


class ProgressBar(ProgressDisplay):
    """Bar with speed, remaining time, losses, metrics and learning rate, redrawn a few times per second.

    Args:
        table_rows: number of epochs in a table above the bar; 0: there is none.
    """

    def __init__(self, table_rows: int = 0) -> None:
        self.table_rows = table_rows
        self._table: Callable[[int], str] | None = None
        self._live: Any = None
        self._progress: Any = None
        self._task: Any = None
        self._next_refresh = 0.0

    def start(self, description: str, total: int | None, done: int) -> None:
        # Imported on a terminal only. (The bar of Keras costs 33 us a step.)
        from rich.live import Live
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=min(BAR_WIDTH, terminal_width() // 5)),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[values]}"),
        )
        self._started, self._done_before, self._description = time.monotonic(), done, description
        self._task = self._progress.add_task(description, total=total, completed=done, values="")
        self._next_refresh = 0.0
        # No thread, which would take the interpreter lock from the training.
        self._live = Live(self._renderable(), transient=True, auto_refresh=False)
        self._live.start(refresh=True)

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        now = time.monotonic()
        if now < self._next_refresh:
            return
        self._next_refresh = now + REFRESH_S
        seconds = now - self._started
        texts = [f"{(done - self._done_before) / seconds:.0f} batches/s"] if seconds > 0 else []
        text = " ".join(texts + _value_texts(values()))
        # The bar, the count and the time are never cut.
        room = terminal_width() - len(self._description) - min(BAR_WIDTH, terminal_width() // 5) - COUNTS_WIDTH
        self._progress.update(self._task, completed=done, values=cut(text, room) if room >= LEAST_ROOM else "")
        self._live.refresh()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def show_table(self, text: Callable[[int], str]) -> None:
        self._table = text

    def close(self) -> None:
        if self._table is not None:
            print(self._table(self.table_rows))
            self._table = None

    def _renderable(self) -> Any:
        """Return what is drawn: the bar, below the table if there is one."""
        from rich.console import Group
        from rich.text import Text

        if self._table is None:
            return self._progress
        rows = min(self.table_rows, terminal_height() - LINES_BESIDE)
        return Group(Text.from_ansi(self._table(rows), no_wrap=True), self._progress)


class NotebookProgress(ProgressDisplay):
    """The same in a notebook: one bar, which every epoch and validation uses again.

    Args:
        clock: returns a time in seconds.
        bar: where it is drawn; None: in the notebook.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, bar: NotebookBar | None = None) -> None:
        self._clock = clock
        self._bar = NotebookBar() if bar is None else bar
        self._finished: tuple[str, int, int | None, str] | None = None

    def start(self, description: str, total: int | None, done: int) -> None:
        self._description, self._total, self._done, self._done_before = description, total, done, done
        self._started, self._next_refresh, self._text = self._clock(), 0.0, ""
        self._draw()

    def advance(self, done: int, values: Callable[[], Logs]) -> None:
        now, self._done = self._clock(), done
        if now < self._next_refresh and done != self._total:
            return
        self._next_refresh = now + REFRESH_S
        rate = (done - self._done_before) / max(now - self._started, 1e-6)
        texts = [f"{rate:.3g} batches/s"]
        if self._total is not None and done < self._total:
            texts.append(f"{duration_text((self._total - done) / rate)} left")
        self._text = ", ".join(texts + _value_texts(values()))
        self._draw()

    def stop(self) -> None:
        # A validation makes room for the epoch that it belongs to.
        if self._total is not None or self._finished is None:
            self._finished = self._description, self._done, self._total, self._text
        self._bar.draw(*self._finished)

    def _draw(self) -> None:
        self._bar.draw(self._description, self._done, self._total, self._text)


def _value_texts(values: Logs) -> list[str]:
    return [f"{name}={number_text(value)}" for name, value in values.items()]


def shows_bar(mode: ProgressBarMode) -> bool:
    """Return True if `trainer.progress_bar_mode` asks for a bar; automatic: on a terminal and in a notebook."""
    return mode is ProgressBarMode.BAR or (mode is ProgressBarMode.AUTO and can_show_bar())


def create_progress_display(mode: ProgressBarMode, table_rows: int = 0) -> ProgressDisplay:
    """Return the display that `trainer.progress_bar_mode` asks for.

    Args:
        mode: of the progress.
        table_rows: number of the last epochs in a table above a bar on a terminal; 0: no table.
    """
    if shows_bar(mode):
        if is_notebook():
            return NotebookProgress()
        return ProgressBar(table_rows if can_redraw() else 0)
    return ProgressDisplay() if mode is ProgressBarMode.PLAIN else ProgressLines()
