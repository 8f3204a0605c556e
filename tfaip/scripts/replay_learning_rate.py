"""`tfaip-replay-learning-rate RUN --learning_rate ...`: what other params would have done with the scores of a run."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.scripts.dryrun import add_dry_run, listed, print_plan
from tfaip.scripts.results import check_files
from tfaip.scripts.roof import asks_for_usage, run_command

if TYPE_CHECKING:
    from tfaip.trainer.best import BestModel
    from tfaip.trainer.history import History
    from tfaip.trainer.scheduler import LearningRateParams
    from tfaip.util.textplot import Curve

PROG = "tfaip-replay-learning-rate"
USAGE = f"""usage: {PROG} RUN [flags]

Show the learning rates that other params would have given with the scores of a training that was run, beside those
that it had. RUN is the directory of a run, a history.json, or a learning_rate_file of RETURNN (which is read, never
executed).

  --learning_rate CLASS, --learning_rate.*  the params; of a run, what they change about its own ones
  --returnn_config FILE                     take the params from a config of RETURNN (read as text, never executed)
  --png FILE                                the picture as a file (pip install 'tfaip[plot]')
  --dry_run                                 check everything, say what would be replayed, show nothing
  --trust PKG [PKG ...]                     packages that the stored params of a run may name classes of

{PROG} RUN --help shows all flags."""


# What RETURNN follows by default, with several outputs and with one.
_RETURNN_SCORES = ("dev_score_output", "dev_score")


@dataclass(frozen=True)
class _Recorded:
    """What was recorded, what it was recorded with, and what tells the best model, if that is known."""

    history: History
    learning_rate: LearningRateParams
    best: BestModel | None


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which run? expected: {PROG} RUN [flags]; see {PROG} --help"):
        return
    from tfaip.scripts.stored import take_trusted, take_words
    from tfaip.trainer.ratereplay import replay

    path = Path(argv[0])
    trusted, flags = take_trusted(argv[1:])
    config, flags = take_words("--returnn_config", "the config of a RETURNN training", flags)
    if len(config) > 1:
        raise UsageError(f"--returnn_config takes one file, got {len(config)}")
    recorded = _of_run(path, trusted) if path.is_dir() else _of_file(path)
    if config:
        recorded = replace(recorded, learning_rate=_of_config(Path(config[0]), recorded.history))
    args = _parse(f"{PROG} {argv[0]}", recorded.learning_rate, flags, trusted)
    if not len(recorded.history):
        raise UsageError(f"{path} records no epoch: nothing to replay")
    args.learning_rate.check_run(recorded.best, recorded.history.names(), logs_lav=False)
    if args.dry_run:
        rule = type(args.learning_rate).__name__.removesuffix("Params")
        print_plan(f"replay {len(recorded.history)} epochs of {path} with {rule}", listed(args.png))
        return
    replayed = replay(args.learning_rate, recorded.history)
    scores = _scores(args.learning_rate, recorded)
    _show(recorded.history, replayed, scores)
    if args.png is not None:
        from tfaip.trainer.ratechart import write_png

        write_png(Path(args.png), "epoch", _curves(recorded.history, replayed), scores)


def _of_run(path: Path, trusted: Sequence[str]) -> _Recorded:
    from tfaip.scripts.stored import load_trainer_params
    from tfaip.trainer.best import BestModel
    from tfaip.trainer.history import read_history
    from tfaip.trainer.lognames import VALIDATION_PREFIX
    from tfaip.trainer.permission import read_permission
    from tfaip.trainer.run_directory import RunDirectory, find_run
    from tfaip.util.backend import import_backend

    directory = RunDirectory(find_run(path)[0])
    permission = read_permission(directory.params_file).and_trusted(trusted)
    scenario, params = load_trainer_params(directory.params_file, permission)
    history = read_history(Path(params.history_file or directory.history_file))
    import_backend()
    names = history.names()
    is_validated = any(name.startswith(VALIDATION_PREFIX) for name in names)
    if not names:
        return _Recorded(history, params.learning_rate, None)
    best = BestModel.of(scenario(params.scenario).model._best_logging_settings(), is_validated, names)
    return _Recorded(history, params.learning_rate, best)


def _of_file(path: Path) -> _Recorded:
    from tfaip.trainer.history import read_history
    from tfaip.trainer.scheduler import ConstantParams

    history = read_history(path)
    rates = [rate for epoch in history.epochs if (rate := history[epoch].lr) is not None]
    default = ConstantParams(epochs=max(history.epochs, default=0))
    return _Recorded(history, replace(default, lr=rates[0]) if rates else default, None)


def _of_config(path: Path, history: History) -> LearningRateParams:
    from tfaip.trainer.returnnconfig import read_rate_config
    from tfaip.trainer.scheduler import FeedbackParams

    params = read_rate_config(path)
    params.epochs = max(history.epochs, default=0)
    if isinstance(params, FeedbackParams) and params.monitor is None and set(_RETURNN_SCORES) & set(history.names()):
        params.monitor = list(_RETURNN_SCORES)
    return params


def _parse(prog: str, default: LearningRateParams, flags: Sequence[str], trusted: Sequence[str]) -> Any:
    from tfaip.params.cli import ParamsParser
    from tfaip.trainer.scheduler import SCHEDULES, LearningRateParams

    parser = ParamsParser(prog, "Show the rates that other params give with the recorded scores.", trusted)
    parser.add_option("--png", type=str, help="Write the picture to this file")
    add_dry_run(parser)
    parser.add_params("learning_rate", LearningRateParams, default=default, metadata={"choices": SCHEDULES})
    args = parser.parse(flags)
    check_files(png=args.png)
    return args


def _scores(params: LearningRateParams, recorded: _Recorded) -> dict[str, Curve]:
    """Name of the value that is followed, and where it is finite; none if nobody knows what is followed."""
    from tfaip.trainer.scheduler import FeedbackParams

    name = None if recorded.best is None else recorded.best.monitor
    if isinstance(params, FeedbackParams):
        found = params.scores(max(recorded.history.epochs) + 1, recorded.history)
        name = None if found is None else found.name
    finite = [(float(e), s) for e, s in recorded.history.scores(name or "").items() if math.isfinite(s)]
    return {name: finite} if name is not None and finite else {}


def _show(recorded: History, replayed: History, scores: Mapping[str, Curve]) -> None:
    from tfaip.util.table import print_table
    from tfaip.util.textplot import text_plot

    rows = [
        [str(epoch), _text(recorded[epoch].lr), _text(replayed[epoch].lr)]
        + [_text(recorded.value(epoch, name)) for name in scores]
        for epoch in recorded.epochs
    ]
    print_table(["epoch", "recorded", "replayed", *scores], rows)
    print()
    print(text_plot(_curves(recorded, replayed)))
    for name, curve in scores.items():
        print(f"\n{name}")
        print(text_plot({name: curve}, height=8))


def _curves(recorded: History, replayed: History) -> dict[str, list[tuple[float, float]]]:
    both = {"recorded": recorded, "replayed": replayed}
    rates = {name: [(float(e), h[e].lr) for e in h.epochs] for name, h in both.items()}
    return {name: [(e, rate) for e, rate in curve if rate is not None] for name, curve in rates.items()}


def _text(number: float | None) -> str:
    return "-" if number is None else f"{number:.6g}"


if __name__ == "__main__":
    sys.exit(main())
