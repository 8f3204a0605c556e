"""`tfaip-preview-schedule SCENARIO [flags]`: the learning rate of a training before it begins."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.trust import top_package
from tfaip.scripts.dryrun import add_dry_run, listed, print_plan
from tfaip.scripts.results import check_files
from tfaip.scripts.roof import asks_for_usage, run_command

if TYPE_CHECKING:
    from tfaip.trainer.history import History
    from tfaip.trainer.ratepreview import EpochRates

PROG = "tfaip-preview-schedule"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Show the learning rate over the whole run, as a table and a picture, without training. All flags of tfaip-train can be
given; nothing is written, but for

  --png FILE             the picture as a file (pip install 'tfaip[plot]')

  --dry_run              check everything, say what would be shown, show nothing
  --trust PKG [PKG ...]  packages that a config file may name classes of, besides tfaip and the scenario's own

{PROG} SCENARIO --help shows all flags of a scenario."""

_MAX_ROWS = 40
_MAX_EPOCHS = 1_000_000


def main(argv: Sequence[str] | None = None) -> int:
    """Entry point of the command; returns the exit code."""
    return run_command(_work, argv)


def _work(argv: Sequence[str]) -> None:
    if asks_for_usage(argv, USAGE, f"which scenario? expected: {PROG} SCENARIO [flags]; see {PROG} --help"):
        return
    from tfaip.scenario.loading import load_scenario
    from tfaip.util.backend import import_backend, select_backend

    select_backend()
    scenario_cls = load_scenario(argv[0])
    args = _parse(f"{PROG} {argv[0]}", scenario_cls, argv[1:])
    if args.trainer.epochs > _MAX_EPOCHS:
        raise UsageError(
            f"{args.trainer.epochs} epochs are too many to compute their rates, expected at most {_MAX_EPOCHS}: change "
            "--trainer.epochs"
        )
    import_backend()
    from tfaip.trainer.ratepreview import preview_rates

    params = args.trainer
    scenario = scenario_cls(params.scenario)
    train = scenario.data.create_pipeline(params.gen.setup.train, params.gen.train_gen())
    batches = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    params.learning_rate.check_functions()
    if args.dry_run:
        print_plan(
            f"show the learning rate of {params.epochs} epochs of {batches} batches of {scenario_cls.__name__} with "
            f"{_name(params.learning_rate)}",
            listed(args.png),
        )
        return
    epochs = preview_rates(params, batches, scenario.graph, _chosen(params.history_file))
    _show(params, batches, epochs)
    if args.png is not None:
        from tfaip.trainer.ratechart import write_png

        write_png(Path(args.png), "completed epochs", {_name(params.learning_rate): _curve(epochs)})


def _parse(prog: str, scenario: Any, flags: Sequence[str]) -> Any:
    from tfaip.params.cli import ParamsParser

    description, own = f"Show the learning rate of a training of {scenario.__name__}.", top_package(scenario.__module__)
    parser = ParamsParser(prog, description, [own])
    parser.add_option("--png", type=str, help="Write the picture to this file")
    add_dry_run(parser)
    default = scenario.default_trainer_params()
    default.output_dir = default.output_dir or "unused"  # required for a training; nothing is written here
    parser.add_params("trainer", scenario.trainer_params_cls(), default=default)
    args = parser.parse(flags)
    check_files(png=args.png)
    return args


def _chosen(history_file: str | None) -> History | None:
    """What a fresh training takes its rates from, if there is such a file."""
    from tfaip.trainer.history import read_history

    path = None if history_file is None else Path(history_file)
    return None if path is None or not path.exists() else read_history(path)


def _show(params: Any, batches: int, epochs: list[EpochRates]) -> None:
    from tfaip.util.textplot import text_plot

    rule = params.learning_rate
    updates = epochs[-1].updates[1] if epochs else 0
    print(f"{_name(rule)}: {params.epochs} epochs of {batches} batches, {updates} updates")
    if rule.needs_scores():
        print("the rate will follow the scores of the training; this is the rate without any decision")
    print()
    print("\n".join(_rows(epochs)))
    print()
    print(text_plot({"rate": _curve(epochs)}))


def _name(rule: Any) -> str:
    modulation = "" if rule.modulation is None else f" x {type(rule.modulation).__name__}"
    return f"{type(rule).__name__}{modulation}".replace("Params", "")


def _rows(epochs: list[EpochRates]) -> list[str]:
    """A row for every epoch, or for several ones in a row with the same rates."""
    rows: list[tuple[int, int, str]] = []
    for rates in epochs:
        values = [f"{rate:.6g}" for _, rate in rates.points]
        text = " -> ".join(dict.fromkeys([values[0], values[-1]])) if values else "no update"
        if rows and rows[-1][2] == text:
            rows[-1] = (rows[-1][0], rates.epoch, text)
        else:
            rows.append((rates.epoch, rates.epoch, text))
    lines = [f"{first if first == last else f'{first}-{last}':>11}  {text}" for first, last, text in rows]
    if len(lines) > _MAX_ROWS:
        half = _MAX_ROWS // 2
        lines = [*lines[:half], f"{'...':>11}", *lines[-half:]]
    return [f"{'epoch':>11}  rate", *lines]


def _curve(epochs: list[EpochRates]) -> list[tuple[float, float]]:
    """The points; an epoch with one rate is a step."""
    curve: list[tuple[float, float]] = []
    for rates in epochs:
        curve += rates.points
        if len(rates.points) == 1:
            curve.append((rates.epoch, rates.points[0][1]))
    return curve


if __name__ == "__main__":
    sys.exit(main())
