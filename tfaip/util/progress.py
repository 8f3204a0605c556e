"""A progress bar around an iterable."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

REFRESH_S = 0.2


def track(items: Iterable[T], description: str, total: int | None, shown: bool) -> Iterator[T]:
    """Pass items on and show how many there were: a bar that disappears at the end, redrawn a few times per second.

    Args:
        items: what to pass on.
        description: in front of the bar.
        total: number of items; None: not known.
        shown: False passes on only.
    """
    if not shown:
        yield from items
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    # Without a thread of its own, which would take the interpreter lock from the work.
    with Progress(*columns, transient=True, auto_refresh=False) as progress:
        task = progress.add_task(description, total=total)
        next_refresh = 0.0
        for done, item in enumerate(items, start=1):
            yield item
            if time.monotonic() >= next_refresh:
                progress.update(task, completed=done, refresh=True)
                next_refresh = time.monotonic() + REFRESH_S
