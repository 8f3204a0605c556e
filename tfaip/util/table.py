"""A table on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table to stdout: drawn on a terminal, aligned columns elsewhere.

    Args:
        header: names of the columns.
        rows: cells; the first column is aligned left, the others right.
    """
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table()
        for position, name in enumerate(header):
            table.add_column(name, justify="right" if position else "left")
        for row in rows:
            table.add_row(*map(Text, row))  # as text: brackets would be read as markup
        Console().print(table)
        return
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in [header, *rows]:
        first, *others = (
            cell.rjust(width) if position else cell.ljust(width)
            for position, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        print("  ".join([first, *others]).rstrip())
