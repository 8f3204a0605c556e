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


def check_files(out: str | None = None, dump: str | None = None, png: str | None = None) -> None:
    """Whether the files that a command is to write can be written, asked before the backend is imported.

    Args:
        out: of results.
        dump: of samples.
        png: of a picture.

    Raises:
        UsageError: one cannot; names the flag.
    """
    from tfaip.predict.samplefile import check_target
    from tfaip.util.files import require_writable

    checks = (("--out", out, require_writable), ("--dump", dump, check_target), ("--png", png, require_writable))
    for flag, path, check in checks:
        if path is not None:
            try:
                check(Path(path))
            except UsageError as error:
                raise UsageError(f"{flag} {error}") from error


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
