"""`tfaip-preview-schedule SCENARIO [flags]`: learning rate and scheduled values of a training before it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.storable import flags_of
from tfaip.scripts.common import command
from tfaip.scripts.common.parser import CommandParser
from tfaip.scripts.train import open_scenario, parse_without_output
from tfaip.trainer.historyreading import read_history
from tfaip.util.terminal import text_plot

if TYPE_CHECKING:
    from tfaip.trainer.tools.rates import EpochRates

PROG = "tfaip-preview-schedule"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Show the learning rate over the whole run, and every other scheduled value, as a table and a
picture, without training. Takes all flags of tfaip-train. Nothing is written except for:

  --png FILE             the picture as a file (pip install 'tfaip[plot]')

  --dry_run              check everything, print what would be shown, show nothing
  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""

_MAX_ROWS = 40
_MAX_EPOCHS = 1_000_000


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rate of a training."""
    scenario_cls = open_scenario(name)
    args = _parse(f"{PROG} {name}", scenario_cls, flags)
    from tfaip.backend.selection import import_backend

    import_backend()
    from tfaip.trainer.tools.rates import preview_rates, preview_schedules

    params, rule = args.trainer, args.trainer.learning_rate
    scenario = scenario_cls(params.scenario)
    train = scenario.data.create_pipeline(params.gen.setup.train, params.gen.train_gen())
    with flags_of(params, "trainer"):
        batches = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
        scheduled = preview_schedules(params, batches)
    with flags_of(params, "trainer", "learning_rate"):
        rule.check_functions()
    if args.dry_run:
        run = f"{params.epochs} epochs of {batches} batches of {scenario_cls.__name__} with {_name(rule)}"
        command.print_plan(f"show the learning rate of {run}", command.listed(args.png))
        return
    history = None
    if params.history_file is not None and Path(params.history_file).exists():
        history = read_history(Path(params.history_file))
    epochs = preview_rates(params, batches, scenario.graph, history)
    _show(params, batches, epochs)
    for target, values in scheduled.items():
        print(f"\n{target}")
        _show_values("value", values)
    if args.png is not None:
        from tfaip.trainer.tools.chart import write_png

        panels = {"learning rate": {_name(rule): _curve(epochs)}}
        panels |= {target: {target: _curve(values)} for target, values in scheduled.items()}
        write_png(Path(args.png), "completed epochs", panels)


def _parse(prog: str, scenario: Any, flags: Sequence[str]) -> Any:
    description = f"Show the learning rate of a training of {scenario.__name__}."
    parser = CommandParser(prog, description, scenario.declared_packages(), ["png"], scenario)
    args = parse_without_output(parser, scenario, flags)
    if args.trainer.epochs > _MAX_EPOCHS:
        raise UsageError(
            f"{args.trainer.epochs} epochs are too many to compute their rates, expected at most {_MAX_EPOCHS}: change "
            "--trainer.epochs"
        )
    return args


def _name(rule: Any) -> str:
    name = type(rule).__name__
    if rule.modulation is not None:
        name = f"{name} x {type(rule.modulation).__name__}"
    return name.replace("Params", "")


def _show(params: Any, batches: int, epochs: list[EpochRates]) -> None:
    rule = params.learning_rate
    updates = epochs[-1].updates[1] if epochs else 0
    print(f"{_name(rule)}: {params.epochs} epochs of {batches} batches, {updates} updates")
    if rule.needs_scores():
        print("the rate will follow the scores of the training; this is the rate without any decision")
    _show_values("rate", epochs)


def _show_values(label: str, epochs: list[EpochRates]) -> None:
    lines = _rows(epochs)
    if len(lines) > _MAX_ROWS:
        lines = [*lines[: _MAX_ROWS // 2], f"{'...':>11}", *lines[-(_MAX_ROWS // 2) :]]
    print("\n".join(["", f"{'epoch':>11}  {label}", *lines, ""]))
    print(text_plot({label: _curve(epochs)}))


def _rows(epochs: list[EpochRates]) -> list[str]:
    """Return a row for every epoch, or for consecutive epochs with the same rates."""
    rows: list[tuple[int, int, str]] = []
    for rates in epochs:
        values = [f"{rate:.6g}" for _, rate in rates.points] or ["no update"]
        text = " -> ".join(dict.fromkeys([values[0], values[-1]]))
        first = rates.epoch
        if rows and rows[-1][2] == text:
            first = rows.pop()[0]
        rows.append((first, rates.epoch, text))
    lines = []
    for first, last, text in rows:
        span = f"{first}-{last}" if first < last else first
        lines.append(f"{span:>11}  {text}")
    return lines


def _curve(epochs: list[EpochRates]) -> list[tuple[float, float]]:
    """Return the points of all epochs; an epoch with one rate is a step."""
    curve: list[tuple[float, float]] = []
    for rates in epochs:
        curve += rates.points
        if len(rates.points) == 1:
            curve.append((rates.epoch, rates.points[0][1]))
    return curve


if __name__ == "__main__":
    sys.exit(main())
