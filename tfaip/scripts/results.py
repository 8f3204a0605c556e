"""How commands show results: a table on the terminal, JSON in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.util.table import print_table


def print_results(columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Print results side by side.

    Args:
        columns: header -> name -> value; a value that is no number is shown shortened.
    """
    names = list(dict.fromkeys(name for results in columns.values() for name in results))
    rows = [[name, *(_shown(results.get(name, "")) for results in columns.values())] for name in names]
    print_table(["", *columns], rows)


def check_out(path: str | None) -> None:
    """Whether results can be written to `path`, asked before the work.

    Raises:
        UsageError: there is no such directory, or the path is one.
    """
    if path is None:
        return
    if not Path(path).parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no directory {Path(path).parent}")
    if Path(path).is_dir():
        raise UsageError(f"{path} cannot be written: it is a directory")


def write_results(path: str, content: Mapping[str, Any]) -> None:
    """Write results as JSON.

    Raises:
        UsageError: a value that JSON cannot express.
    """
    from tfaip.predict.samplefile import to_plain
    from tfaip.util.files import write_json

    write_json(Path(path), to_plain(content))


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
