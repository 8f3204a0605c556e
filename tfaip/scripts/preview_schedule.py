"""`tfaip-preview-schedule SCENARIO [flags]`: learning rate and scheduled values of a training before it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.backend.environment import import_backend
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario
from tfaip.util.chart import draw
from tfaip.util.classes import construct

if TYPE_CHECKING:
    from tfaip.trainer.tools.rates import EpochRates

PROG = "tfaip-preview-schedule"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Show the learning rate over the whole run, and every other scheduled value, as a table, without
training. Takes all flags of tfaip-train. Nothing is written except for:

  --png FILE             the same as a picture (pip install matplotlib)

  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rate of a training."""
    from tfaip.params.settings import flags_of
    from tfaip.scripts.common.parser import TrainingParser

    scenario = open_scenario(name)
    description = f"Show the learning rate of a training of {scenario.__name__}."
    args = TrainingParser(f"{PROG} {name}", description, scenario, writes=["png"]).parse(flags)
    params = args.trainer
    import_backend()
    from tfaip.trainer.history import read_history
    from tfaip.trainer.stages.program import preview_stages
    from tfaip.trainer.tools.rates import RATE, preview_rates

    preview, stages, history = preview_stages(params, scenario), [], None
    with flags_of(params, "trainer"):
        plain = _size_and_network(params, scenario)
        for stage in [stage for stage in preview.stages if stage.trains]:
            # Of stages that read files of others, the plain params tell the size of the epochs.
            has_own = stage.params is not params and not stage.reads_stages
            stages.append((stage, *(_size_and_network(stage.params, scenario) if has_own else plain)))
        if params.history_file is not None and Path(params.history_file).exists():
            history = read_history(Path(params.history_file))
        found = preview_rates(stages, history)
    if preview.has_stages:
        print("\n".join([*preview.table(), ""]))
    rules = [stage.params.learning_rate for stage, *_ in stages]
    size = f"epochs in {len(stages)} stages" if len(stages) > 1 else f"epochs of {stages[-1][1]} batches"
    updates = found[RATE][-1].updates[1] if found[RATE] else 0
    print(f"{', '.join(dict.fromkeys(map(_name, rules)))}: {stages[-1][0].last_epoch} {size}, {updates} updates")
    if any(rule.needs_scores() for rule in rules):
        print("the rate will follow the scores of the training; this is the rate without any decision")
    width = max(len(stage.name) for stage, *_ in stages) + 2 if len(stages) > 1 else 0
    for target, values in found.items():
        print("" if target == RATE else f"\n{target}\n")
        _show("rate" if target == RATE else "value", values, width)
    if args.png is not None:
        panels = {title: {title: _curve(values)} for title, values in found.items()}
        draw("completed epochs", panels).savefig(args.png, format="png")


def _size_and_network(params: Any, scenario_cls: Any) -> tuple[int, Any]:
    """Return the batches of an epoch, and the graph, if the rate of an update may depend on it."""
    from tfaip.params.fields import below

    scenario, rule = construct(scenario_cls, params.scenario), params.learning_rate
    train = params.gen.train_data(scenario.data)
    batches = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    if not rule.needs_scores():
        with below("learning_rate"):
            rule.check_run(None, [], logs_lav=False)
    varies = rule.is_continuous() or rule.modulation is not None
    return batches, scenario.graph if varies else None


def _name(rule: Any) -> str:
    name = type(rule).__name__
    if rule.modulation is not None:
        name = f"{name} x {type(rule.modulation).__name__}"
    return name.replace("Params", "")


def _show(label: str, epochs: Sequence[EpochRates], width: int) -> None:
    """Print a row for each epoch, or for consecutive epochs of a stage with the same rates."""

    def text(rates: EpochRates) -> str:
        values = [f"{rate:.6g}" for _, rate in rates.points] or ["no update"]
        shown = " -> ".join(dict.fromkeys([values[0], values[-1]]))
        return f"{rates.stage if width else '':<{width}}{shown}"

    lines = []
    for line, equal in groupby(epochs, key=text):
        numbers = [rates.epoch for rates in equal]
        span = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else numbers[0]
        lines.append(f"{span:>11}  {line}")
    heading = f"{'stage':<{width}}" if width else ""
    print("\n".join([f"{'epoch':>11}  {heading}{label}", *lines]))


def _curve(epochs: Sequence[EpochRates]) -> list[tuple[float, float]]:
    """Return the points of all epochs; an epoch with one rate is a step."""
    curve: list[tuple[float, float]] = []
    for rates in epochs:
        curve += rates.points
        if len(rates.points) == 1:
            curve.append((rates.epoch, rates.points[0][1]))
    return curve


if __name__ == "__main__":
    sys.exit(main())
