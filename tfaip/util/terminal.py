"""Tables, curves and progress bars on the terminal and in notebooks; width and colours."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import string
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
Curve = Sequence[tuple[float, float]]

REFRESH_S = 0.2
# A notebook stores all that is printed.
NOTEBOOK_REFRESH_S = 1.0
BAR_WIDTH = 20
MARKS = "*o+x" + "#@%&" + string.ascii_letters.replace("o", "").replace("x", "")
WIDTH, HEIGHT = 80, 24
BOLD, GREEN = "1", "1;32"


def is_terminal() -> bool:
    """Return True if stdout is a terminal; programs may have replaced it by an object that cannot tell."""
    try:
        return bool(sys.stdout.isatty())
    except (AttributeError, ValueError):  # closed, or no file
        return False


def terminal_width() -> int:
    """Return the columns of the terminal: those in `COLUMNS`, else those of stdout, 80 without a terminal."""
    return shutil.get_terminal_size((WIDTH, HEIGHT)).columns


def can_redraw() -> bool:
    """Return True if stdout is a terminal on which lines can be replaced."""
    return is_terminal() and os.environ.get("TERM") not in ("dumb", "unknown")


def is_notebook() -> bool:
    """Return True in the kernel of a notebook; IPython on a terminal is none."""
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console().is_jupyter


def can_show_bar() -> bool:
    """Return True in a notebook, and on such a terminal if it shows the signs of a bar."""
    encoding = getattr(sys.stdout, "encoding", None) or ""
    return is_notebook() or (can_redraw() and encoding.lower().startswith("utf"))


def has_colors() -> bool:
    """Return True if stdout is a terminal that shows colours, and `NO_COLOR` does not forbid them."""
    return can_redraw() and not os.environ.get("NO_COLOR")


def styled(text: str, style: str) -> str:
    """Return `text` in a style (`BOLD`, `GREEN`), or unchanged where there are no colours."""
    return f"\033[{style}m{text}\033[0m" if text and has_colors() else text


@contextlib.contextmanager
def announced(work: str) -> Iterator[None]:
    """Context in which a terminal shows `work ...`, below what is printed meanwhile."""
    if not can_redraw():
        yield
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    # A console of its own: another one of these contexts may be active.
    with Live(Text(f"{work} ..."), console=Console(), transient=True, auto_refresh=False):
        yield


def text_width(text: str) -> int:
    """Return the columns that a text takes: two for each wide character, none for a combining one."""
    from rich.text import Text

    return Text(text).cell_len


def cut(text: str, width: int) -> str:
    """Return `text` without its end if it takes more than `width` columns: `a, b, c` -> `a, ...`.

    Args:
        text: one line.
        width: at least 4.
    """
    from rich.text import Text

    if text_width(text) <= width:
        return text
    shortened = Text(text)
    shortened.truncate(width - 3, overflow="crop")
    return f"{shortened.plain.rstrip()}..."


def align_right(text: str, width: int) -> str:
    """Return `text` with spaces before it, so that it takes at least `width` columns."""
    return " " * (width - text_width(text)) + text


def align_left(text: str, width: int) -> str:
    """Return `text` with spaces after it, so that it takes at least `width` columns."""
    return text + " " * (width - text_width(text))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout: with lines on a terminal, as aligned columns elsewhere.

    Args:
        header: names of the columns.
        rows: cells; the first column is aligned left, the others right.
    """
    if is_terminal():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()  # of texts: brackets in others would be read as markup
        for position, name in enumerate(header):
            table.add_column(Text(name), justify="right" if position else "left")
        for row in rows:
            table.add_row(*map(Text, row))
        Console().print(table)
        return
    widths = [max(map(text_width, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        cells = [align_right(cell, width) for cell, width in zip(row, widths, strict=True)]
        cells[0] = align_left(row[0], widths[0])
        print("  ".join(cells).rstrip())


def track(items: Iterable[T], description: str, total: int | None, shown: bool) -> Iterator[T]:
    """Pass items on and show a progress bar, which disappears from a terminal at the end.

    Args:
        items: to pass on.
        description: printed before the bar.
        total: number of items; None: not known.
        shown: False only passes the items on.
    """
    if not shown:
        yield from items
        return
    refresh_s = NOTEBOOK_REFRESH_S if is_notebook() else REFRESH_S
    with _bar(description, total) as draw:
        done, next_refresh = 0, 0.0
        for done, item in enumerate(items, start=1):
            yield item
            if time.monotonic() >= next_refresh:
                draw(done)
                next_refresh = time.monotonic() + refresh_s
        draw(done)


@contextlib.contextmanager
def _bar(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Return a function that draws the bar again with this number of finished items."""
    if is_notebook():
        of_total = "" if total is None else f" of {total}"
        with contextlib.closing(ReplacedLine()) as line:
            yield lambda done: line.show(f"{description}: {done}{of_total}")
    else:
        with create_bar() as bar:
            task = bar.add_task(description, total=total)
            yield lambda done: bar.update(task, completed=done, refresh=True)


def create_bar(*columns: Any) -> Progress:
    """Return a bar of rich with the standard columns and these, which disappears at the end.

    It has no thread, which would take the interpreter lock from the work: the caller refreshes it.
    """
    from rich import progress
    from rich.console import Console

    standard = (
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(BAR_WIDTH),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(compact=True),
    )
    return progress.Progress(
        *standard, *columns, console=Console(), transient=True, auto_refresh=False, expand=bool(columns)
    )


class ReplacedLine:
    """Line of a notebook: each text replaces the one before, and nothing is left at the end."""

    def __init__(self) -> None:
        self._width = 0

    def show(self, text: str) -> None:
        """Show a text in place of the last one."""
        print(f"\r{text:{self._width}}", end="", flush=True)
        self._width = len(text)

    def close(self) -> None:
        """Remove the line."""
        self.show("")
        print(end="\r", flush=True)


def text_plot(curves: Mapping[str, Curve], width: int = 70, height: int = 12) -> str:
    """Draw curves in one frame, with the values at its edges; several curves with a legend.

    Args:
        curves: name -> points (x, y), finite; an earlier curve is drawn over a later one.
        width: columns of the frame.
        height: rows of the frame.
    """
    xs = [x for curve in curves.values() for x, _ in curve]
    ys = [y for curve in curves.values() for _, y in curve]
    if not ys:
        return "(nothing to plot)"
    low, high, begin, end = min(ys), max(ys), min(xs), max(xs)
    scale = math.log if needs_log_scale(ys) else float
    rows = [[" "] * width for _ in range(height)]
    for mark, curve in reversed(list(zip(cycle(MARKS), curves.values(), strict=False))):
        for x, y in curve:
            row = _cell(scale(y), scale(low), scale(high), height)
            rows[height - 1 - row][_cell(x, begin, end, width)] = mark
    labels = [""] * height
    labels[-1] = f"{low:.4g}"
    if high > low:
        labels[0] = f"{high:.4g}"
    indent = max(map(len, labels))
    lines = [f"{label:>{indent}} |{''.join(row).rstrip()}" for label, row in zip(labels, rows, strict=True)]
    first, last = f"{begin:.4g}", f"{end:.4g}"
    lines.append(f"{'':>{indent}} +{'-' * width}")
    lines.append(f"{'':>{indent}}  {first}{last:>{width - len(first)}}")
    if len(curves) > 1:
        lines.append("   ".join(f"{mark} {name}" for mark, name in zip(cycle(MARKS), curves, strict=False)))
    return "\n".join(lines)


def needs_log_scale(values: Sequence[float]) -> bool:
    """Return True if half of the values are below a tenth of the largest one."""
    return min(values) > 0 and sorted(values)[len(values) // 2] * 10 < max(values)


def _cell(value: float, low: float, high: float, cells: int) -> int:
    """Return the index of the cell that a value falls into."""
    if math.isinf(high - low):
        value, low, high = value / 2, low / 2, high / 2
    return round((value - low) / (high - low) * (cells - 1)) if high > low else 0
