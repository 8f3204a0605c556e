"""Terminals and notebooks: width, colours, tables and progress."""

import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from tfaip.util.text import duration_text, metric_text
from tfaip.util.typing import Logs

T = TypeVar("T")

BOLD, GREEN = "1", "1;32"

log = logging.getLogger(__name__)


def is_terminal() -> bool:
    """Return True if stdout is a terminal that can replace lines; programs may have put an odd object in its place."""
    return bool(getattr(sys.stdout, "isatty", bool)()) and os.environ.get("TERM") not in ("dumb", "unknown")


def is_notebook() -> bool:
    """Return True in the kernel of a notebook; IPython on a terminal is none."""
    return "ipykernel" in sys.modules


def can_show_bar() -> bool:
    """Return True in a notebook, and on a terminal if it shows the signs of a bar."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return is_notebook() or (is_terminal() and encoding.lower().startswith("utf"))


def terminal_width() -> int:
    """Return the columns of the terminal: those in `COLUMNS`, else those of stdout, 80 without a terminal."""
    return shutil.get_terminal_size((80, 24)).columns


def styled(text: str, style: str) -> str:
    """Return `text` in a style (`BOLD`, `GREEN`), or unchanged where there are no colours."""
    return f"\033[{style}m{text}\033[0m" if text and is_terminal() and not os.environ.get("NO_COLOR") else text


def text_width(text: str) -> int:
    """Return the columns that a text takes: two for each wide character, none for a combining one."""
    from rich.cells import cell_len

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """Return `text` without its end if it takes more than `width` columns (at least 4): `a, b, c` -> `a, ...`."""
    from rich.cells import set_cell_size

    return text if text_width(text) <= width else f"{set_cell_size(text, width - 3).rstrip()}..."


def align_right(text: str, width: int) -> str:
    """Return `text` with spaces before it, so that it takes at least `width` columns."""
    return " " * (width - text_width(text)) + text


def table_lines(rows: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """Return rows of cells as aligned lines; the first `left` columns are aligned left, the others right."""
    widths = [max(map(text_width, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [align_right(cell, width) for cell, width in zip(row, widths, strict=True)]
        for column in range(min(left, len(row))):
            cells[column] = row[column] + " " * (widths[column] - text_width(row[column]))
        lines.append("  ".join(cells).rstrip())
    return lines


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout: the first column is aligned left, the others right."""
    print("\n".join(table_lines([header, *rows])))


class ProgressDisplay:
    """Display of the progress of some work: a line per minute in the log; base of the others.

    Args:
        shown: returns the values to show, in their order.
        first_work: what takes the time until something is finished; it is logged once, if it takes a second or more.
        clock: returns a time in seconds.
    """

    refresh_s = 60.0

    def __init__(
        self,
        unit: str,
        shown: Callable[[Logs], Logs] = dict,
        first_work: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.unit, self.shown, self.first_work, self.clock = unit, shown, first_work, clock

    def start(self, description: str, total: int | None, done: int = 0) -> None:
        """Begin to count up to `total` (None: not known), of which `done` are finished."""
        self._description, self._total, self._done_before = description, total, done
        self._started = self.clock()
        self._next = self._started + self.refresh_s

    def advance(self, done: int, values: Callable[[], Logs] = dict) -> None:
        """Show that `done` are finished, if it is time to; only then `values` are read, which waits for the device."""
        now = self.clock()
        seconds = now - self._started
        if self.first_work and seconds >= 1.0:
            log.info("%s took %.1f s", self.first_work, seconds)
        self.first_work = ""
        if now >= self._next:
            self._next = now + self.refresh_s
            speed = (done - self._done_before) / max(seconds, 1e-6)
            self.draw(done, speed, [f"{name} {metric_text(value)}" for name, value in self.shown(values()).items()])

    def draw(self, done: int, speed: float, values: list[str]) -> None:
        """Show how many are finished, how many are per second, and the values."""
        log.info("%s", self.line(done, speed, values))

    def line(self, done: int, speed: float, values: list[str]) -> str:
        """Return `Epoch 3/10: batch 160 of 400, 1.02/s, 3:56 left, loss 0.2500`."""
        texts = [f"{self.unit} {done}", f"{speed:.3g}/s"]
        if self._total is not None:
            texts[0] += f" of {self._total}"
            if speed > 0:
                texts.append(f"{duration_text((self._total - done) / speed)} left")
        return f"{self._description}: {', '.join([*texts, *values])}"

    def stop(self) -> None:
        """Remove what would be replaced, also after an error."""


class ProgressBar(ProgressDisplay):
    """Bar of rich on a terminal; without its thread, which would take the interpreter lock from the work."""

    refresh_s = 0.2

    def start(self, description: str, total: int | None, done: int = 0) -> None:
        from rich import progress
        from rich.console import Console
        from rich.table import Column

        super().start(description, total, done)
        self._next = self._started
        columns = [
            progress.TextColumn("{task.description}", markup=False),
            progress.BarColumn(20),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(compact=True),
        ]
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        columns.append(progress.TextColumn("{task.fields[text]}", markup=False, table_column=rest))
        # A console of its own: another display may be active.
        self._bar = progress.Progress(*columns, console=Console(), transient=True, auto_refresh=False, expand=True)
        self._bar.add_task(description, total=total, completed=done, text="")
        self._bar.start()

    def draw(self, done: int, speed: float, values: list[str]) -> None:
        text = ", ".join([*values, f"{speed:.3g}/s"])
        self._bar.update(self._bar.task_ids[0], completed=done, text=text, refresh=True)

    def stop(self) -> None:
        self._bar.stop()


class NotebookProgress(ProgressDisplay):
    """Line of a notebook that is replaced by the next one; a notebook stores all that is printed."""

    refresh_s = 1.0
    _width = 0

    def draw(self, done: int, speed: float, values: list[str]) -> None:
        line = self.line(done, speed, values)
        print(f"\r{line:{self._width}}", end="", flush=True)
        self._width = len(line)

    def stop(self) -> None:
        print(f"\r{'':{self._width}}", end="\r", flush=True)
        self._width = 0


def track(items: Iterable[T], description: str, total: int | None, shown: bool, unit: str = "item") -> Iterator[T]:
    """Pass items on, and show a progress bar if `shown`; `total` is None if their number is not known."""
    if not shown:
        yield from items
        return
    display = NotebookProgress(unit) if is_notebook() else ProgressBar(unit)
    display.start(description, total)
    try:
        for done, item in enumerate(items, start=1):
            yield item
            display.advance(done)
    finally:
        display.stop()
