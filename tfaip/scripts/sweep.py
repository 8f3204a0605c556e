"""`tfaip-sweep SCENARIO --space FILE --output_dir DIR [flags]`: search for the best params of a training."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.runs import main as list_runs
from tfaip.scripts.train import open_scenario

PROG = "tfaip-sweep"
# Flag -> type, default, word for its value, help.
_OPTIONS: dict[str, tuple[Any, Any, str, str]] = {
    "space": (str, "", "FILE", "flags that vary (YAML or JSON): {low: 0.001, high: 0.1, log: true} or [32, 64]"),
    "output_dir": (str, "", "DIR", "directory of the runs and of the study"),
    "trials": (int, 20, "N", "number of trials (default: 20)"),
    "jobs": (int, 1, "N", "trainings at the same time, each with its own GPU if there are several (default: 1)"),
    "monitor": (str, "", '"MODE NAME"', 'value to compare, e.g. "max val_acc" (default: that of the best model)'),
    "sampler": (Literal["tpe", "random", "grid"], "tpe", "NAME", "tpe (default), random or grid"),
    "pruner": (
        Literal["median", "hyperband", "none"],
        "median",
        "NAME",
        "end bad trials: median (default), hyperband or none",
    ),
    "seed": (int, 0, "N", "seed of the search (default: 0)"),
    "storage": (str, "", "URL", "database that several machines share (default: DIR/study.db)"),
}
_OWN = (*_OPTIONS, "dry_run")
_FLAGS = "\n".join(f"  {f'--{flag} {word}':<22} {text}" for flag, (_, _, word, text) in _OPTIONS.items())
USAGE = f"""usage: {PROG} SCENARIO --space FILE --output_dir DIR [flags]

Train a scenario many times with params that a search chooses (Optuna: pip install 'tfaip[sweep]').
Each training is a run DIR/trial_0000, DIR/trial_0001 ... The same command continues a sweep that was
stopped or killed. Takes the flags of tfaip-train, and:

{_FLAGS}
  --dry_run              check everything, print what would be done, write nothing
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Search for the best params of a training."""
    from tfaip.backend.selection import import_backend
    from tfaip.device.gpus import installed_gpus, visible_gpus
    from tfaip.params.commandline.arguments import split_arguments
    from tfaip.util.construction import construct
    from tfaip.util.paths import require_directory

    scenario = open_scenario(name)
    args = _parse(name, scenario, flags)
    require_directory(Path(args.output_dir))
    given = {flag: words for flag, words in split_arguments(flags, ["config", "trust"]).items() if flag not in _OWN}

    fixed = {*given, "trainer.output_dir", "overwrite"}
    dicts = {flag for flag, words in given.items() if any("=" in word for word in words)}

    def parse(content: Mapping[str, Any]) -> Any:
        for flag in fixed & content.keys() or dicts & {flag.rpartition(".")[0] for flag in content}:
            raise UsageError(f"{args.space}: {flag} is the same in all trials: leave it out there, or as a flag")
        with tempfile.TemporaryDirectory() as directory:
            config = Path(directory, "trial.json")
            config.write_text(json.dumps(content))
            try:
                return _parse(name, scenario, [*flags, "--config", str(config)]).trainer
            except UsageError as error:
                raise type(error)(str(error).replace(str(config), args.space)) from error

    from tfaip.sweep import Sweep, combinations, read_space

    space = read_space(args.space, parse)
    if args.sampler == "grid":
        combinations(space)
    if args.dry_run:
        varied = f"{', '.join(variable.flag for variable in space)} in {args.trials} trials of {scenario.__name__}"
        command.print_plan(f"search {varied} by {args.sampler}", f"{args.output_dir}/trial_0000 ...")
        return
    if not args.monitor:
        import_backend()
        args.monitor = construct(scenario, args.trainer.scenario).best_logging_settings()[0]
    words = [name]
    for flag, values in given.items():
        words += [f"--{flag}={values[0]}", *values[1:]] if values else [f"--{flag}"]
    gpus = visible_gpus(installed_gpus()) if args.trainer.device.gpus is None else []
    Path(args.output_dir).mkdir(parents=True, exist_ok=True)
    sweep = Sweep(words, space, gpus if args.jobs > 1 and len(gpus) > 1 else [], args)
    sweep.run()
    for trial in sweep.trials():
        if "error" in trial.user_attrs:
            print(f"trial_{trial.number:04} failed: {trial.user_attrs['error']}")
    list_runs([args.output_dir, "--sort", "best"])


def _parse(name: str, scenario: Any, flags: Sequence[str]) -> Any:
    from tfaip.params.commandline.flagtexts import described
    from tfaip.scripts.common.parser import TrainingParser

    parser = TrainingParser(f"{PROG} {name}", f"Search for the best params of {described(scenario)}", scenario)
    for flag, (kind, default, _, text) in _OPTIONS.items():
        parser.add_option(f"--{flag}", type=kind, default=default, help=text)
    parser.add_dry_run()
    args = parser.parse(flags)
    for flag in ("space", "output_dir"):
        if not getattr(args, flag):
            raise UsageError(f"missing required flag: --{flag}")
    for flag in ("trials", "jobs"):
        if getattr(args, flag) < 1:
            raise UsageError(f"--{flag} is {getattr(args, flag)}, expected at least 1")
    if args.monitor and not re.fullmatch(r"(min|max) \S+", args.monitor):
        raise UsageError(f'--monitor is {args.monitor!r}, expected a mode and a name: --monitor "max val_acc"')
    if args.trainer.output_dir:
        raise UsageError("--trainer.output_dir is chosen for each trial: give --output_dir for all of them")
    if find_spec("optuna") is None:
        raise UsageError(f"{PROG} needs Optuna, which is not installed: pip install 'tfaip[sweep]'")
    return args


if __name__ == "__main__":
    sys.exit(main())
