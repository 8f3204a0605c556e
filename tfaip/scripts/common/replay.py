"""Replay of the learning rates of a recorded training with other params: the work of `tfaip-replay-learning-rate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.metadata import COMMON
from tfaip.params.settings import flags_of
from tfaip.scripts.common.parser import CommandParser
from tfaip.scripts.common.storedtraining import load_trainer_params
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import History
from tfaip.trainer.historyreading import read_history
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.trainer.run.names import VALIDATION_PREFIX
from tfaip.trainer.scheduler import SCHEDULES, ConstantParams, FeedbackParams, LearningRateParams
from tfaip.trainer.tools.rates import replay
from tfaip.util.construction import construct
from tfaip.util.terminal import Curve, print_table, text_plot


@dataclass(frozen=True)
class _Recorded:
    """A recorded training.

    Args:
        history: its scores and rates.
        learning_rate: the params that it was trained with.
        scenario: class of the scenario; None: unknown.
        params: the scenario params.
    """

    history: History
    learning_rate: LearningRateParams
    scenario: Any = None
    params: Any = None

    @cached_property
    def best(self) -> BestModel | None:
        """The criterion of its best model, which the model names; None: unknown. Imports the backend."""
        from tfaip.backend.selection import import_backend

        names = self.history.names()
        if self.scenario is None or not names:
            return None
        import_backend()
        is_validated = any(name.startswith(VALIDATION_PREFIX) for name in names)
        return BestModel.of(construct(self.scenario, self.params).best_logging_settings(), is_validated, names)


def replay_rates(prog: str, name: str, flags: Sequence[str], trusted: Sequence[str]) -> None:
    """Show the rates that other params give with the scores of a training.

    Args:
        prog: how the command was called, for `--help`.
        name: of the recorded training.
        flags: the rest of the command line.
        trusted: packages whose classes stored params may name.
    """
    recorded = _read(Path(name), trusted)
    args = _parse(prog, recorded.learning_rate, flags, trusted)
    history, rule = recorded.history, args.learning_rate
    if not len(history):
        raise UsageError(f"{name} records no epoch: nothing to replay")
    with flags_of(rule, "learning_rate"):
        rule.check_run(recorded.best, history.names(), logs_lav=False)
    replayed = replay(rule, history)
    scores = _scores(rule, recorded)
    _show(history, replayed, scores)
    if args.png is not None:
        from tfaip.util.chart import write_png

        panels: dict[str, Mapping[str, Curve]] = {"learning rate": _curves(history, replayed)}
        if scores:
            panels["score"] = scores
        write_png(Path(args.png), "epoch", panels)


def _read(path: Path, trusted: Sequence[str]) -> _Recorded:
    if path.is_dir():
        return _read_run(path, trusted)
    history = read_history(path)
    default = ConstantParams(epochs=max(history.epochs, default=0))
    for epoch in history.epochs:
        rate = history[epoch].lr
        if rate is not None:
            return _Recorded(history, replace(default, lr=rate))
    return _Recorded(history, default)


def _read_run(path: Path, trusted: Sequence[str]) -> _Recorded:
    directory = RunDirectory(find_run(path)[0])
    scenario, params, _ = load_trainer_params(directory.params_file, trusted)
    history = read_history(Path(params.history_file or directory.history_file))
    return _Recorded(history, params.learning_rate, scenario, params.scenario)


def _parse(prog: str, default: LearningRateParams, flags: Sequence[str], trusted: Sequence[str]) -> Any:
    description = "Show the rates that other params give with the recorded scores."
    parser = CommandParser(prog, description, trusted, writes=["png"])
    parser.add_params("learning_rate", LearningRateParams, default=default, metadata={"choices": SCHEDULES, **COMMON})
    return parser.parse(flags)


def _scores(params: LearningRateParams, recorded: _Recorded) -> dict[str, Curve]:
    """Return the name of the monitored value and its finite values; nothing if it is unknown."""
    name = None
    if isinstance(params, FeedbackParams):
        found = params.scores(max(recorded.history.epochs) + 1, recorded.history)
        if found is not None:
            name = found.name
    elif recorded.best is not None:
        name = recorded.best.monitor
    scores = recorded.history.scores(name or "")
    finite = [(float(epoch), score) for epoch, score in scores.items() if math.isfinite(score)]
    if name is None or not finite:
        return {}
    return {name: finite}


def _show(recorded: History, replayed: History, scores: Mapping[str, Curve]) -> None:
    rows = []
    for epoch in recorded.epochs:
        numbers = [recorded[epoch].lr, replayed[epoch].lr, *(recorded.value(epoch, name) for name in scores)]
        rows.append([str(epoch), *map(_text, numbers)])
    print_table(["epoch", "recorded", "replayed", *scores], rows)
    print()
    print(text_plot(_curves(recorded, replayed)))
    for name, curve in scores.items():
        print(f"\n{name}")
        print(text_plot({name: curve}, height=8))


def _curves(recorded: History, replayed: History) -> dict[str, list[tuple[float, float]]]:
    curves = {}
    for name, history in (("recorded", recorded), ("replayed", replayed)):
        rates = [(float(epoch), history[epoch].lr) for epoch in history.epochs]
        curves[name] = [(epoch, rate) for epoch, rate in rates if rate is not None]
    return curves


def _text(number: float | None) -> str:
    return "-" if number is None else f"{number:.6g}"
