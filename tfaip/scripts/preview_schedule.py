"""`tfaip-preview-schedule SCENARIO [flags]`: learning rate and scheduled values of a training before it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.backend.environment import import_backend
from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario
from tfaip.util.chart import text_plot, write_png
from tfaip.util.classes import construct

if TYPE_CHECKING:
    from tfaip.trainer.tools.rates import EpochRates

PROG = "tfaip-preview-schedule"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Show the learning rate over the whole run, and every other scheduled value, as a table and a
picture, without training. Takes all flags of tfaip-train. Nothing is written except for:

  --png FILE             the picture as a file (pip install matplotlib)

  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""

_MAX_ROWS = 40
_MAX_EPOCHS = 1_000_000
_MAX_CURVES = 4


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rate of a training."""
    from tfaip.params.settings import flags_of
    from tfaip.scripts.common.parser import TrainingParser

    scenario = open_scenario(name)
    description = f"Show the learning rate of a training of {scenario.__name__}."
    args = TrainingParser(f"{PROG} {name}", description, scenario, writes=["png"]).parse(flags)
    params = args.trainer
    if params.epochs > _MAX_EPOCHS:
        raise UsageError(
            f"{params.epochs} epochs are too many to compute their rates, expected at most {_MAX_EPOCHS}: change "
            "--trainer.epochs"
        )
    import_backend()
    from tfaip.trainer.history import read_history
    from tfaip.trainer.stages.program import preview_stages
    from tfaip.trainer.tools.rates import RatedStage, preview_rates, preview_schedules

    preview, stages = preview_stages(params, scenario), []
    plain = _size_and_network(params, scenario)
    for stage in [stage for stage in preview.stages if stage.trains]:
        # Of stages that read files of others, the plain params tell the size of the epochs.
        has_own = stage.params is not params and not stage.reads_stages
        batches, network = _size_and_network(stage.params, scenario) if has_own else plain
        epochs = stage.first_epoch, stage.last_epoch
        stages.append(RatedStage(stage.name, epochs, batches, stage.params, network, stage.settings.rate_control))
    with flags_of(params, "trainer"):
        scheduled = preview_schedules(stages)
    history = None
    if params.history_file is not None and Path(params.history_file).exists():
        history = params.learning_rate.continue_from(read_history(Path(params.history_file)).rates_only())
    rates = preview_rates(stages, history)
    if preview.has_stages:
        print("\n".join([*preview.table(), ""]))
    rules = [stage.params.learning_rate for stage in stages]
    size = f"{stages[-1].epochs[1]} epochs of {stages[-1].batches} batches"
    if len(stages) > 1:
        size = f"{stages[-1].epochs[1]} epochs in {len(stages)} stages"
    print(f"{', '.join(dict.fromkeys(map(_name, rules)))}: {size}, {rates[-1].updates[1] if rates else 0} updates")
    if any(rule.needs_scores() for rule in rules):
        print("the rate will follow the scores of the training; this is the rate without any decision")
    width = max(len(stage.name) for stage in stages) + 2 if len(stages) > 1 else 0
    _show("rate", rates, width)
    for target, values in scheduled.items():
        print(f"\n{target}")
        _show("value", values, width)
    if args.png is not None:
        curves = {_name(params.learning_rate): _curve(rates)}
        if 1 < len(stages) <= _MAX_CURVES:  # more cannot be told apart
            curves = {stage.name: _curve([one for one in rates if one.stage == stage.name]) for stage in stages}
        panels = {"learning rate": {stage: curve for stage, curve in curves.items() if curve}}
        panels |= {target: {target: _curve(values)} for target, values in scheduled.items()}
        write_png(Path(args.png), "completed epochs", panels)


def _size_and_network(params: Any, scenario_cls: Any) -> tuple[int, Any]:
    """Return the batches of an epoch, and the graph, if the rate of an update may depend on it."""
    from tfaip.params.settings import flags_of

    scenario, rule = construct(scenario_cls, params.scenario), params.learning_rate
    train = params.gen.train_data(scenario.data)
    with flags_of(params, "trainer"):
        batches = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    with flags_of(params, "trainer", "learning_rate"):
        rule.check_functions()
    varies = rule.is_continuous() or rule.modulation is not None
    return batches, scenario.graph if varies else None


def _name(rule: Any) -> str:
    name = type(rule).__name__
    if rule.modulation is not None:
        name = f"{name} x {type(rule.modulation).__name__}"
    return name.replace("Params", "")


def _show(label: str, epochs: Sequence[EpochRates], width: int) -> None:
    """Print a row for each epoch, or for consecutive epochs of a stage with the same rates, and a picture."""

    def text(rates: EpochRates) -> str:
        values = [f"{rate:.6g}" for _, rate in rates.points] or ["no update"]
        shown = " -> ".join(dict.fromkeys([values[0], values[-1]]))
        return f"{rates.stage if width else '':<{width}}{shown}"

    lines = []
    for line, equal in groupby(epochs, key=text):
        numbers = [rates.epoch for rates in equal]
        span = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else numbers[0]
        lines.append(f"{span:>11}  {line}")
    if len(lines) > _MAX_ROWS:
        lines = [*lines[: _MAX_ROWS // 2], f"{'...':>11}", *lines[-(_MAX_ROWS // 2) :]]
    heading = f"{'stage':<{width}}" if width else ""
    print("\n".join(["", f"{'epoch':>11}  {heading}{label}", *lines, ""]))
    print(text_plot({label: _curve(epochs)}))


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
