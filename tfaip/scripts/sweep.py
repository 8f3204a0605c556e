"""`tfaip-sweep SCENARIO --space FILE --output_dir DIR [flags]`: search for the best params of a training."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario

if TYPE_CHECKING:
    from tfaip.scripts.common.parser import TrainingParser
    from tfaip.sweep.space import Space
    from tfaip.sweep.study import SweepSettings, TrialResult

PROG = "tfaip-sweep"
USAGE = f"""usage: {PROG} SCENARIO --space FILE --output_dir DIR [flags]

Train a scenario many times with params that a search chooses (Optuna: pip install 'tfaip[sweep]'),
and show the best ones. Each training is a run DIR/trial_0000, DIR/trial_0001 ... The same command
continues a sweep that was stopped or killed. Takes the flags of tfaip-train, and:

  --space FILE           flags that vary (YAML or JSON): {{low: 0.001, high: 0.1, log: true}} or [32, 64]
  --output_dir DIR       directory of the runs and of the study
  --trials N             number of trials (default: 20)
  --jobs N               trainings at the same time (default: 1)
  --monitor "MODE NAME"  value to compare, e.g. "max val_acc" (default: that of the best model)
  --sampler NAME         tpe (default), random or grid
  --pruner NAME          median (default), hyperband or none: stops trials that will not be good
  --seed N               seed of the search (default: 0)
  --storage URL          database that several machines share (default: DIR/study.db)
  --time_limit SECONDS   stop after this time
  --json                 print the results as JSON
  --dry_run              check everything, print what would be done, write nothing
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""

# Flag -> type, default, help.
_OPTIONS: dict[str, tuple[Any, Any, str]] = {
    "space": (str | None, None, "File with the flags that vary"),
    "output_dir": (str | None, None, "Directory of the runs and of the study"),
    "trials": (int, 20, "Number of trials"),
    "jobs": (int, 1, "Trainings at the same time"),
    "monitor": (str | None, None, "Mode and name of the value to compare (None: that of the best model)"),
    "sampler": (str, "tpe", "Search: tpe, random or grid"),
    "pruner": (str, "median", "What ends bad trials: median, hyperband or none"),
    "seed": (int, 0, "Seed of the search"),
    "storage": (str | None, None, "URL of a database that several machines share (None: study.db)"),
    "time_limit": (float | None, None, "Stop after so many seconds (None: never)"),
    "json": (bool, False, "Print the results as JSON"),
}
# Of these, what the sweep is given as it is.
_SETTINGS = ("trials", "jobs", "sampler", "pruner", "seed", "storage", "time_limit")
_MONITOR = re.compile(r"(min|max) (\S+)")


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Search for the best params of a training."""
    scenario_cls = open_scenario(name)
    args = _parse(f"{PROG} {name}", scenario_cls, flags)
    settings = _settings(name, scenario_cls, flags, args)
    if args.dry_run:
        varied = f"{', '.join(settings.space)} in {settings.trials} trials of {scenario_cls.__name__}"
        command.print_plan(f"search {varied} by {settings.sampler}", f"{settings.directory}/trial_0000 ...")
        return
    from tfaip.sweep.study import Sweep
    from tfaip.util.logging import only_warnings

    settings.directory.mkdir(parents=True, exist_ok=True)
    sweep = Sweep(settings)
    with only_warnings() if args.json else contextlib.nullcontext():
        sweep.run()
    print_results(sweep.results(), settings, args.json)


def _parser(prog: str, scenario: Any) -> TrainingParser:
    from tfaip.params.commandline.flagtexts import described
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(prog, f"Search for the best params of {described(scenario)}", scenario)
    for flag, (kind, default, text) in _OPTIONS.items():
        parser.add_option(f"--{flag}", type=kind, default=default, help=text)
    parser.add_dry_run()
    return parser


def _parse(prog: str, scenario: Any, flags: Sequence[str]) -> SimpleNamespace:
    from tfaip.sweep.study import PRUNERS, SAMPLERS

    args = _parser(prog, scenario).parse(flags)
    for flag in ("space", "output_dir"):
        if not getattr(args, flag):
            raise UsageError(f"missing required flag: --{flag}")
    for flag, choices in (("sampler", SAMPLERS), ("pruner", PRUNERS)):
        if getattr(args, flag) not in choices:
            raise UsageError(f"--{flag} is {getattr(args, flag)!r}, expected one of {', '.join(choices)}")
    for flag in ("trials", "jobs"):
        if getattr(args, flag) < 1:
            raise UsageError(f"--{flag} is {getattr(args, flag)}, expected at least 1")
    if args.time_limit is not None and not args.time_limit > 0:
        raise UsageError(f"--time_limit is {args.time_limit}, expected seconds above 0")
    if args.monitor is not None and not _MONITOR.fullmatch(args.monitor):
        raise UsageError(f'--monitor is {args.monitor!r}, expected a mode and a name: --monitor "max val_acc"')
    if args.trainer.output_dir:
        raise UsageError("--trainer.output_dir is chosen for each trial: give --output_dir for all of them")
    if find_spec("optuna") is None:
        raise UsageError(f"{PROG} needs Optuna, which is not installed: pip install 'tfaip[sweep]'")
    return args


def _settings(name: str, scenario: Any, flags: Sequence[str], args: SimpleNamespace) -> SweepSettings:
    from tfaip.sweep.identity import about_sweep, require_same, stored_sweep
    from tfaip.sweep.space import grid_of, read_space
    from tfaip.sweep.study import SweepSettings
    from tfaip.util.paths import require_directory

    directory, space = Path(args.output_dir), read_space(args.space)
    require_directory(directory)
    common = _without_own(flags)
    # Before the trials are checked: that may build the scenario.
    require_same(
        stored_sweep(directory), about_sweep(name, common, space, args.monitor, args.sampler, args.seed), directory
    )
    _check(name, scenario, common, space, args.space)
    if args.sampler == "grid":
        grid_of(space)
    mode, monitor = args.monitor.split(" ") if args.monitor else (_mode(scenario, args.trainer), None)
    given = {flag: getattr(args, flag) for flag in _SETTINGS}
    return SweepSettings(name, common, space, directory, mode, monitor, **given)


def _without_own(flags: Sequence[str]) -> list[str]:
    """Return the flags of the training alone, with their values."""
    own = {f"--{name}" for name in (*_OPTIONS, "dry_run")}
    rest: list[str] = []
    is_own = False
    for word in flags:
        if word.startswith("--"):
            is_own = word.partition("=")[0] in own
        if not is_own:
            rest.append(word)
    return rest


def _check(name: str, scenario: Any, flags: Sequence[str], space: Space, file: str) -> None:
    """Raise unless the command line takes all flags of the space, with their limits and choices."""
    from tfaip.sweep.space import write_config

    given = {word.partition("=")[0] for word in flags}
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "trial.json")
        for flag, entry in space.items():
            if flag in ("trainer.output_dir", "overwrite"):
                raise UsageError(f"{file}: {flag} is the same for all trials: leave it out")
            if f"--{flag}" in given:
                raise UsageError(f"--{flag} is given, and varies in {file}: leave one of them out")
            for value in entry.samples():
                write_config(config, space, {flag: value})
                words = [*flags, "--config", str(config)]
                try:
                    _parser(f"{PROG} {name}", scenario).parse(words)
                except UsageError as error:
                    raise UsageError(str(error).replace(str(config), file)) from error


def _mode(scenario: Any, params: Any) -> str:
    """Return "min" or "max" as the scenario names it; imports the backend."""
    from tfaip.backend.selection import import_backend
    from tfaip.util.construction import construct

    import_backend()
    mode: str = construct(scenario, params.scenario).best_logging_settings()[0]
    return mode


def print_results(results: Sequence[TrialResult], settings: SweepSettings, as_json: bool) -> None:
    """Print the trials: a table with rounded numbers, or JSON with the exact ones."""
    from dataclasses import asdict

    from tfaip.util.terminal import print_table
    from tfaip.util.text import cell_texts, number_text

    if as_json:
        print(json.dumps([asdict(result) for result in results], indent=2))
        return
    rows = []
    for result in results:
        value = "-" if result.value is None else number_text(result.value)
        rows.append([f"trial_{result.number:04}", result.state, value, str(result.epochs)])
    for flag in settings.space:
        for row, cell in zip(rows, cell_texts([result.params.get(flag, "-") for result in results]), strict=True):
            row.append(cell)
    print_table(["trial", "state", settings.monitor or "value", "epochs", *settings.space], rows)
    if results and results[0].state == "complete":
        print(f"Best run    {results[0].directory}")
    print(f"All runs    tfaip-runs {shlex.quote(str(settings.directory))}")


if __name__ == "__main__":
    sys.exit(main())
