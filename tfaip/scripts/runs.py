"""`tfaip-runs DIR`, `tfaip-runs compare RUN RUN`: what runs have reached, and in what they differ."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.common.runtables import SCENARIO, finite, is_seen_to_differ, print_comparison, print_runs
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from types import SimpleNamespace

    from tfaip.trainer.tools.runs import StoredRun

PROG = "tfaip-runs"
USAGE = f"""usage: {PROG} DIR [DIR ...] [flags]
       {PROG} compare RUN RUN [RUN ...] [flags]

List the runs at and below directories: their states, epochs, best values and times, and the params
in which they differ. Or compare some runs: params, best values and curves. Only the directories of
the runs are read, nothing is changed; runs may be training.

  --sort NAME            by name (default), state, epochs, best, seconds or changed
  --params PAT [PAT ...] show these params, equal ones, too: flags without dashes (optimizer.*), or their last
                         parts (default: those that differ)
  --values PAT [PAT ...] show these logged values: in a list those of the best epoch, in a
                         comparison their curves (default: the value that tells the best model)
  --json                 print JSON
  --csv                  print CSV: a line for each run, in a comparison for each value of an epoch
  --png FILE             of a comparison: the curves as a picture (pip install 'tfaip[plot]')"""

_SORTS = ["name", "state", "epochs", "best", "seconds", "changed"]
# Of the params that differ, they are shown only if nothing else does: what the table says anyway, and chance.
_SECONDARY = ("trainer.epochs", "learning_rate.epochs", "trainer.random_seed")
# Classes that belong to a scenario, which tells them.
_OF_SCENARIO = (
    *("__cls__", "scenario.__cls__", "scenario.data.__cls__", "scenario.model.__cls__", "scenario.evaluator.__cls__"),
    *("gen.__cls__", "gen.setup.__cls__", "train", "val", "lav"),
)


@command.entry_point(USAGE, "directory", choices={"--sort": _SORTS})
def main(first: str, flags: list[str]) -> None:
    """List or compare runs."""
    words = [first, *takewhile(lambda word: not word.startswith("-"), flags)]
    args = _parse(flags[len(words) - 1 :])
    if first == "compare":
        _compare(words[1:], args)
    else:
        _list(words, args)


def _parse(flags: Sequence[str]) -> SimpleNamespace:
    from tfaip.scripts.common.parser import CommandParser

    parser = CommandParser(PROG, "List or compare runs.", writes=["png"])
    parser.add_option("--sort", type=str, default="name", help="Order of the runs")
    parser.add_option("--params", type=list[str], default=[], help="Params to show")
    parser.add_option("--values", type=list[str], default=[], help="Logged values to show")
    parser.add_option("--json", help="Print JSON")
    parser.add_option("--csv", help="Print CSV")
    args = parser.parse(flags)
    if args.sort not in _SORTS:
        raise UsageError(f"--sort is {shorten(args.sort)}, expected one of {', '.join(_SORTS)}")
    if args.json and args.csv:
        raise UsageError("--json and --csv exclude each other: give one of them")
    return args


def _list(directories: Sequence[str], args: SimpleNamespace) -> None:
    from tfaip.trainer.tools.runs import find_runs, read_run

    if args.png is not None:
        raise UsageError(f"--png shows the curves of a comparison: {PROG} compare RUN RUN --png {args.png}")
    paths = dict.fromkeys(path for directory in directories for path in find_runs(Path(directory)))
    runs = _sorted([read_run(path) for path in paths], args.sort)
    params, values = _chosen_params(runs, args.params), _chosen_values(runs, args.values)
    if args.json:
        _print_json([_facts(run, params, values) for run in runs])
    elif args.csv:
        _print_csv(_flat_facts(runs, params, values))
    else:
        print_runs(runs, params, values)


def _compare(names: Sequence[str], args: SimpleNamespace) -> None:
    from tfaip.trainer.run.directory import find_run
    from tfaip.trainer.tools.runs import RunState, read_run

    paths = dict.fromkeys(find_run(Path(name))[0] for name in names)
    if len(paths) < 2:
        raise UsageError(f"{PROG} compare needs two different runs or more, got {len(paths)}")
    runs = [read_run(path) for path in paths]
    for run in runs:
        if run.state is RunState.DAMAGED:
            raise UsageError(run.problem)
    runs = _sorted(runs, args.sort) if args.sort != "name" else runs
    params = _chosen_params(runs, args.params)
    monitored = list(dict.fromkeys(run.best.monitor for run in runs if run.best is not None))
    curves = _curves(runs, _chosen_values(runs, args.values) if args.values else monitored)
    if args.json:
        _print_json({"runs": [_facts(run, params, list(curves)) for run in runs], "curves": curves})
    elif args.csv:
        points = [(run, name, *p) for name, by_run in curves.items() for run, curve in by_run.items() for p in curve]
        _print_csv([{"run": run, "epoch": x, "name": name, "value": y} for run, name, x, y in points])
    else:
        print_comparison(runs, params, curves)
    if args.png is not None:
        from tfaip.util.chart import write_png

        write_png(Path(args.png), "epoch", finite(curves))


def _sorted(runs: Sequence[StoredRun], order: str) -> list[StoredRun]:
    """Return the runs in an order; those without a best value last."""

    def goodness(run: StoredRun) -> float:
        if run.best is None:
            return math.inf
        return run.best.value if run.best.mode == "min" else -run.best.value

    keys: dict[str, Any] = {
        "name": lambda run: str(run.path),
        "state": lambda run: run.state.value,
        "epochs": lambda run: run.epoch,
        "best": goodness,
        "seconds": lambda run: run.seconds,
        "changed": lambda run: run.changed,
    }
    return sorted(runs, key=keys[order])


def _chosen_params(runs: Sequence[StoredRun], patterns: Sequence[str]) -> list[str]:
    """Return the params to show: those of the patterns, else those that differ."""
    from tfaip.trainer.tools.runs import differing_params

    if not patterns:
        differing = differing_params(runs)
        implied = _OF_SCENARIO if SCENARIO in differing else ()
        # Classes of equal names in several modules: those of copies of a scenario.
        found = [path for path in differing if path not in implied and is_seen_to_differ(runs, path)]
        return [path for path in found if path not in _SECONDARY] or found
    return _matching("--params", patterns, dict.fromkeys(path for run in runs for path in run.params))


def _chosen_values(runs: Sequence[StoredRun], patterns: Sequence[str]) -> list[str]:
    return _matching("--values", patterns, dict.fromkeys(name for run in runs for name in run.history.names()))


def _matching(flag: str, patterns: Sequence[str], known: Mapping[str, None]) -> list[str]:
    """Return the names that fit one of the patterns.

    Raises:
        UsageError: if a pattern fits none.
    """
    from tfaip.params.names.suggestions import did_you_mean

    chosen: dict[str, None] = {}
    for pattern in patterns:
        found = [name for name in known if name == pattern or fnmatchcase(name, pattern)]  # a name may contain brackets
        found = found or [name for name in known if name.endswith(f".{pattern}")]  # as a table shows it
        if not found:
            raise UsageError(f"{flag} {shorten(pattern)}: no run has it{did_you_mean(pattern, list(known))}")
        chosen.update(dict.fromkeys(found))
    return list(chosen)


def _facts(run: StoredRun, params: Sequence[str], values: Sequence[str]) -> dict[str, Any]:
    """Return what is known about a run, as JSON has it."""
    from dataclasses import asdict

    best = asdict(run.best) if run.best is not None else None
    logged = run.values()
    return {
        "run": str(run.path),
        "state": run.state.value,
        "epoch": run.epoch,
        "epochs": run.epochs,
        "best": best,
        "seconds": round(run.seconds, 3),
        "changed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.changed)),
        "params": {path: run.params[path] for path in params if path in run.params},
        "values": {name: logged[name] for name in values if name in logged},
        "problem": run.problem,
    }


def _flat_facts(runs: Sequence[StoredRun], params: Sequence[str], values: Sequence[str]) -> list[dict[str, Any]]:
    """Return the facts of runs as lines of equal columns."""
    lines = []
    for run in runs:
        facts = _facts(run, params, values)
        best, stored, logged = facts.pop("best") or {}, facts.pop("params"), facts.pop("values")
        problem = facts.pop("problem")
        facts |= {f"best_{name}": best.get(name, "") for name in ("monitor", "mode", "epoch", "value")}
        facts |= {path: stored.get(path, "") for path in params} | {name: logged.get(name, "") for name in values}
        lines.append({**facts, "problem": problem})
    return lines


def _print_json(content: Any) -> None:
    # Numbers that JSON does not have would make the text unreadable for other programs.
    print(json.dumps(_with_null(content), indent=2))


def _with_null(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_null(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print_csv(lines: Sequence[Mapping[str, Any]]) -> None:
    if lines:
        text = io.StringIO()
        writer = csv.DictWriter(text, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
        # File names may contain bytes that are no text.
        print(text.getvalue().encode("utf-8", "backslashreplace").decode("utf-8"), end="")


def _curves(runs: Sequence[StoredRun], values: Sequence[str]) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """Return name of a value -> run -> its (epoch, value) pairs."""
    return {name: {str(run.path): list(run.history.scores(name).items()) for run in runs} for name in values}


if __name__ == "__main__":
    sys.exit(main())
