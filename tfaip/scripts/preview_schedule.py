"""`tfaip-preview-schedule SCENARIO [flags]`: learning rate and scheduled values of a training before it starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.scripts.common import command
from tfaip.scripts.train import open_scenario
from tfaip.util.terminal import text_plot

if TYPE_CHECKING:
    from tfaip.trainer.stages.preview import Preview
    from tfaip.trainer.tools.rates import EpochRates, RatedStage

PROG = "tfaip-preview-schedule"
USAGE = f"""usage: {PROG} SCENARIO [flags]

Show the learning rate over the whole run, and every other scheduled value, as a table and a
picture, without training. Takes all flags of tfaip-train. Nothing is written except for:

  --png FILE             the picture as a file (pip install 'tfaip[plot]')

  --trust PKG [PKG ...]  {command.TRUST_CONFIG}

{PROG} SCENARIO --help shows the flags of a scenario (--help all: every one)."""

_MAX_ROWS = 40
_MAX_EPOCHS = 1_000_000
_MAX_CURVES = 4


@command.entry_point(USAGE, "scenario")
def main(name: str, flags: list[str]) -> None:
    """Show the learning rate of a training."""
    scenario_cls = open_scenario(name)
    args = _parse(f"{PROG} {name}", scenario_cls, flags)
    from tfaip.backend.selection import import_backend

    import_backend()
    from tfaip.params.values.storable import flags_of
    from tfaip.trainer.historyreading import read_history
    from tfaip.trainer.stages.preview import plan_table, preview_stages as find_stages
    from tfaip.trainer.tools.rates import preview_schedules, preview_stages

    params = args.trainer
    preview = find_stages(params, scenario_cls)
    stages = _rated_stages(preview, params, scenario_cls)
    with flags_of(params, "trainer"):
        scheduled = preview_schedules(stages)
    history = None
    if params.history_file is not None and Path(params.history_file).exists():
        history = params.learning_rate.continue_from(read_history(Path(params.history_file)).rates_only())
    epochs = preview_stages(stages, history)
    if preview.has_stages:
        print("\n".join([*plan_table(preview, params), ""]))
    _show(stages, epochs)
    for target, values in scheduled.items():
        print(f"\n{target}")
        _show_values("value", stages, values)
    if args.png is not None:
        from tfaip.util.chart import write_png

        panels = {"learning rate": _curves(stages, epochs)}
        panels |= {target: {target: _curve(values)} for target, values in scheduled.items()}
        write_png(Path(args.png), "completed epochs", panels)


def _rated_stages(preview: Preview, params: Any, scenario_cls: Any) -> list[RatedStage]:
    """Return the stages that train, with the size of their epochs.

    Raises:
        UsageError: if the data or the rule of one of them cannot work.
    """
    from tfaip.trainer.stages.program import StageKind
    from tfaip.trainer.tools.rates import RatedStage

    # Of stages that are known later, the plain params tell the size of their epochs.
    batches, network = _size_and_network(params, scenario_cls)
    stages = []
    for stage in preview.stages:
        if stage.kind is not StageKind.TRAIN:
            continue
        sizes = batches, network
        if stage.params is not None and stage.params is not params:
            sizes = _size_and_network(stage.params, scenario_cls)
        epochs = stage.first_epoch, stage.last_epoch
        stages.append(RatedStage(stage.name, epochs, sizes[0], stage.params, sizes[1], stage.rate_control))
    return stages


def _size_and_network(params: Any, scenario_cls: Any) -> tuple[int, Any]:
    """Return the batches of an epoch, and the graph, if the rate of an update may depend on it."""
    from tfaip.params.values.storable import flags_of
    from tfaip.util.construction import construct

    scenario, rule = construct(scenario_cls, params.scenario), params.learning_rate
    train = params.gen.train_data(scenario.data)
    with flags_of(params, "trainer"):
        batches = train.num_batches(train.epoch_size(params.samples_per_epoch, params.scale_epoch_size))
    with flags_of(params, "trainer", "learning_rate"):
        rule.check_functions()
    varies = rule.is_continuous() or rule.modulation is not None
    return batches, scenario.graph if varies else None


def _parse(prog: str, scenario: Any, flags: Sequence[str]) -> Any:
    from tfaip.scripts.common.parser import TrainingParser

    description = f"Show the learning rate of a training of {scenario.__name__}."
    args = TrainingParser(prog, description, scenario, writes=["png"]).parse(flags)
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


def _show(stages: Sequence[RatedStage], epochs: Sequence[EpochRates]) -> None:
    main = stages[-1]
    size = f"{main.epochs[1]} epochs of {main.batches} batches"
    if len(stages) > 1:
        size = f"{main.epochs[1]} epochs in {len(stages)} stages"
    rules = dict.fromkeys(_name(stage.params.learning_rate) for stage in stages if stage.params is not None)
    updates = epochs[-1].updates[1] if epochs else 0
    print(f"{', '.join(rules)}: {size}, {updates} updates")
    if any(stage.params is not None and stage.params.learning_rate.needs_scores() for stage in stages):
        print("the rate will follow the scores of the training; this is the rate without any decision")
    _show_values("rate", stages, epochs)


def _show_values(label: str, stages: Sequence[RatedStage], epochs: Sequence[EpochRates]) -> None:
    width = max(len(stage.name) for stage in stages) + 2 if len(stages) > 1 else 0
    lines = _rows(epochs, width)
    if len(lines) > _MAX_ROWS:
        lines = [*lines[: _MAX_ROWS // 2], f"{'...':>11}", *lines[-(_MAX_ROWS // 2) :]]
    heading = f"{'stage':<{width}}" if width else ""
    print("\n".join(["", f"{'epoch':>11}  {heading}{label}", *lines, ""]))
    print(text_plot({label: _curve(epochs)}))


def _rows(epochs: Sequence[EpochRates], width: int) -> list[str]:
    """Return a row for every epoch, or for consecutive epochs of a stage with the same rates.

    Args:
        epochs: all epochs.
        width: of the column of the stage; 0: there is none.
    """

    def text(rates: EpochRates) -> str:
        return f"{rates.stage if width else '':<{width}}{_rate_text(rates)}"

    lines = []
    for line, equal in groupby(epochs, key=text):
        numbers = [rates.epoch for rates in equal]
        span = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else numbers[0]
        lines.append(f"{span:>11}  {line}")
    return lines


def _rate_text(rates: EpochRates) -> str:
    if rates.points is None:
        return "known when the stage is reached"
    values = [f"{rate:.6g}" for _, rate in rates.points] or ["no update"]
    return " -> ".join(dict.fromkeys([values[0], values[-1]]))


def _curves(stages: Sequence[RatedStage], epochs: Sequence[EpochRates]) -> dict[str, list[tuple[float, float]]]:
    """Return a curve per stage, or one for all if there are too many to be told apart."""
    if not 1 < len(stages) <= _MAX_CURVES:
        return {_name(stages[-1].params.learning_rate): _curve(epochs)}  # type: ignore[union-attr]
    curves = {stage.name: _curve([rates for rates in epochs if rates.stage == stage.name]) for stage in stages}
    return {name: curve for name, curve in curves.items() if curve}


def _curve(epochs: Sequence[EpochRates]) -> list[tuple[float, float]]:
    """Return the points of all epochs; an epoch with one rate is a step."""
    curve: list[tuple[float, float]] = []
    for rates in epochs:
        points = rates.points or ()
        curve += points
        if len(points) == 1:
            curve.append((rates.epoch, points[0][1]))
    return curve


if __name__ == "__main__":
    sys.exit(main())
