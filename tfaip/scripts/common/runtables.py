"""Tables of runs: a list with a line for each, and a comparison with a column for each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfaip.util.terminal import Curve, is_terminal, print_table, terminal_width, text_plot
from tfaip.util.text import cell_texts, number_text, number_texts, shorten_text

if TYPE_CHECKING:
    from tfaip.trainer.tools.runs import StoredRun

# Param that names the scenario.
SCENARIO = "scenario.scenario_id"
_SUMMARY = ["state", "epochs", "best", "epoch", "time"]
# Ends of the names of classes, which their flags leave out.
_CLASS_ENDS = ("Params", "Optimizer")
_CELL = 24
_GAP = 3  # between two columns
_MISSING = "-"


def print_runs(runs: Sequence[StoredRun], params: Sequence[str], values: Sequence[str]) -> None:
    """Print a line for each run, and below the table why some cannot be read or have failed.

    Args:
        runs: in this order.
        params: names of the params to show; on a terminal as many as it has room for.
        values: names of the logged values to show, of the best epoch.
    """
    columns = [["run", *map(_name, runs)], *_summary_columns(runs)]
    for name in values:
        found = [run.values().get(name) for run in runs]
        cells = [_MISSING if value is None else number_text(value) for value in found]
        columns.append([shorten_text(name, _CELL), *cells])
    further = [[title, *_cells(runs, path)] for path, title in _short_names(params).items()]
    hidden = _too_wide(columns, further)
    columns += [[shorten_text(title, _CELL), *cells] for title, *cells in further if title not in hidden]
    header, *rows = zip(*columns, strict=True)
    print_table(header, rows)
    if hidden:
        print(f"{len(hidden)} more params differ: {shorten_text(', '.join(hidden), 200)} (--params, --csv)")
    for run in runs:
        if run.problem:
            print(f"{_name(run)}: {run.problem}")


def _summary_columns(runs: Sequence[StoredRun]) -> list[list[str]]:
    """Return the columns that sum up runs; each begins with its name."""
    from tfaip.trainer.reporting.progress import duration_text

    found = [run.best for run in runs if run.best is not None]
    numbers = iter(number_texts([best.value for best in found]))
    rows = [_SUMMARY]
    for run in runs:
        best, epoch = _MISSING, _MISSING
        if run.best is not None:
            best, epoch = f"{shorten_text(run.best.monitor, _CELL)} {next(numbers)}", str(run.best.epoch)
        rows.append([run.state.value, f"{run.epoch}/{run.epochs}", best, epoch, duration_text(run.seconds)])
    return [list(column) for column in zip(*rows, strict=True)]


def _name(run: StoredRun) -> str:
    return shorten_text(str(run.path), 160)


def _distinct(paths: Iterable[str]) -> list[str]:
    """Return the names of runs as they are shown; those that are equal without their middles get a number."""
    shown: dict[str, None] = {}
    for path in paths:
        name = shorten_text(path, 160)
        shown[name if name not in shown else f"{name} ({len(shown) + 1})"] = None
    return list(shown)


def _cells(runs: Sequence[StoredRun], path: str) -> list[str]:
    texts = iter(cell_texts([_shown(run.params[path]) for run in runs if path in run.params]))
    return [shorten_text(next(texts), _CELL) if path in run.params else _MISSING for run in runs]


def _shown(value: Any) -> Any:
    """Return a value as it is shown: a class without its module."""
    from tfaip.params.values.flat import ClassName

    if isinstance(value, list):
        return [_shown(item) for item in value]
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    if not isinstance(value, ClassName):
        return value
    name = value.rpartition(":")[2]
    for end in _CLASS_ENDS:
        name = name.removesuffix(end)
    return name


def is_seen_to_differ(runs: Sequence[StoredRun], path: str) -> bool:
    """Return True if a param has several values that look different: classes may have equal names."""
    return len(set(cell_texts([_shown(run.params[path]) for run in runs if path in run.params]))) > 1


def _title(path: str) -> str:
    return "scenario" if path == SCENARIO else path.removesuffix(".__cls__")


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return the paths with as many of their last parts as tell them from each other."""
    shown = {path: _title(path) for path in paths}
    short = {}
    for path, name in shown.items():
        parts = name.split(".")
        others = [f".{other}" for other in shown.values() if other != name]
        tails = (".".join(parts[-count:]) for count in range(1, len(parts)))
        short[path] = next((tail for tail in tails if not any(o.endswith(f".{tail}") for o in others)), name)
    return short


def _too_wide(shown: Sequence[Sequence[str]], further: Sequence[Sequence[str]]) -> list[str]:
    """Return the titles of columns for which the terminal has no room beside those shown; elsewhere it has for all."""
    if not is_terminal():
        return []
    width = sum(max(map(len, column)) + _GAP for column in shown) + 1
    hidden: list[str] = []
    for column in further:
        needed = max(map(len, column)) + _GAP
        if hidden or width + needed > terminal_width():
            hidden.append(column[0])
        else:
            width += needed
    return hidden


def print_comparison(runs: Sequence[StoredRun], params: Sequence[str], curves: Mapping[str, Any]) -> None:
    """Print a column for each run, and the curves of values below.

    Args:
        runs: in this order.
        params: names of the params to show.
        curves: name of a value -> run -> its (epoch, value) pairs.
    """
    rows = _summary_columns(runs)
    rows += [[shorten_text(_title(path)), *_cells(runs, path)] for path in params]
    print_table(["", *(_name(run) for run in runs)], rows)
    for name, by_run in finite(curves).items():
        print(f"\n{shorten_text(name)}")
        print(text_plot(dict(zip(_distinct(by_run), by_run.values(), strict=True))))


def finite(curves: Mapping[str, Mapping[str, Curve]]) -> dict[str, dict[str, Curve]]:
    """Return the curves as they can be drawn."""
    return {
        name: {run: [(x, y) for x, y in curve if math.isfinite(y)] for run, curve in by_run.items()}
        for name, by_run in curves.items()
    }
