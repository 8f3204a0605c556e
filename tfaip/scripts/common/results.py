"""Results of a command: a table on the terminal, JSON in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.util.files import write_json
from tfaip.util.terminal import print_table
from tfaip.util.text import shorten_text

_MAX_WIDTH = 40


def print_results(columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Print results side by side.

    Args:
        columns: header -> name -> value; a value that is no number is shortened.
    """
    names: dict[str, None] = {}
    for results in columns.values():
        names.update(dict.fromkeys(results))
    rows = [[name, *(_cell(results.get(name, "")) for results in columns.values())] for name in names]
    print_table(["", *columns], rows)


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return shorten_text(str(value), _MAX_WIDTH)


def write_results(path: str | None, content: Mapping[str, Any]) -> None:
    """Write results as JSON (`--out`); nothing is written if there is no path.

    Raises:
        UsageError: if JSON cannot express a value.
    """
    if path is not None:
        from tfaip.predict.samplefile import to_plain  # imports NumPy, which `--help` does not need

        write_json(Path(path), to_plain(content))
