"""Output in notebooks: a bar that is updated in its place."""

from __future__ import annotations

import sys
from html import escape
from typing import Any

WIDTH = 20


def is_notebook() -> bool:
    """Return True in the kernel of a notebook; IPython on a terminal is none."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


class NotebookBar:
    """Bar below the cell that draws it first. IPython must be running."""

    def __init__(self) -> None:
        self._handle: Any = None

    def draw(self, description: str, done: int, total: int | None, text: str) -> None:
        """Show the bar, or show it in another state.

        Args:
            description: what is done, before the bar.
            done: number of finished items.
            total: number of all items; None: not known.
            text: behind the bar.
        """
        from IPython.display import display

        shown = representations(description, done, total, text)
        if self._handle is None:
            self._handle = display(shown, raw=True, display_id=True)
        else:
            self._handle.update(shown, raw=True)


def representations(description: str, done: int, total: int | None, text: str) -> dict[str, str]:
    """Return the bar as HTML, and as text for what shows no HTML."""
    count = str(done) if total is None else f"{done}/{total}"
    filled = 0 if not total else WIDTH * done // total
    plain, html = f"[{'#' * filled:{WIDTH}}] ", f"<progress value='{done}' max='{total}'></progress> "
    if total is None:
        plain = html = ""
    return {
        "text/plain": f"{description} {plain}{count} {text}".rstrip(),
        "text/html": f"<div style='font-family: monospace'>{escape(description)} {html}{count} {escape(text)}</div>",
    }
