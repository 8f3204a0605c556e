"""`Trainer.fit` called more than once: the same weights, changed params, and a run that can be resumed anywhere."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import CallbackOf, LineScenario, LineTrainerParams, Weights, line_params, weight
from tfaip.errors import UsageError
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.trainer import Trainer
from tfaip.util.typing import Logs

SEEN: list[Any] = []


class TwiceTrainer(Trainer[LineTrainerParams]):
    """As clients of tfaip 1.2 write it: a second training from epoch 1, with other data and params."""

    def __init__(self, params: LineTrainerParams, scenario: Any, restore: bool = False) -> None:
        super().__init__(params, scenario, restore)

    def setup_data(self) -> None:
        SEEN.append("data")

    def setup_steps_per_epoch(self) -> None:
        SEEN.append("steps")

    def fit(self) -> Any:  # its result is that of the last call
        logs = super().fit()
        SEEN.append((self.epoch, self.params.current_epoch, self._data is self.scenario.data, logs["loss"]))
        self.params.current_epoch, self.params.epochs = 0, 3
        self.params.learning_rate.lr = 0.5
        self.params.gen.train.x = [2.0]
        self.setup_data()
        self.setup_steps_per_epoch()
        super().fit()
        SEEN.append((self.epoch, self.params.current_epoch))


# w = 0; 2 epochs of 2 steps of -1, then 3 epochs of a step of -0.5 * 2.
FIRST = [-2.0, -4.0]
SECOND = [-5.0, -6.0, -7.0]


def params(run: Path | None, **fields: Any) -> LineTrainerParams:
    made = line_params([1.0, 1.0], [1.0], run, **{"epochs": 2, **fields})
    made.learning_rate = ConstantParams(lr=1.0)
    return made


def run(made: Any, trainer_cls: Any = TwiceTrainer, *callbacks: Any, restore: bool = False) -> tuple[Any, Logs]:
    SEEN.clear()
    scenario = type("LineScenario", (LineScenario,), {"trainer_cls": classmethod(lambda cls: trainer_cls)})
    scenario.__module__ = LineScenario.__module__
    trainer = scenario.create_trainer(made, restore=restore, checkpoint=None, from_stage=None)
    return trainer, trainer.train(list(callbacks))


def test_a_second_call_goes_on_with_the_weights_and_changed_params() -> None:
    weights = Weights()
    trainer, logs = run(params(None), TwiceTrainer, weights)
    assert weights.values == [*FIRST, *SECOND]
    assert (weight(trainer), trainer.epoch, trainer.params.current_epoch) == (-7, 5, 3)
    assert ["data", "steps", (2, 2, True, pytest.approx(-2.5)), "data", "steps", (5, 3)] == SEEN
    # The mean of w * x over the last epoch is that before its step.
    assert logs["loss"] == -12
    assert [trainer.history[epoch].lr for epoch in range(1, 6)] == [1, 1, 0.5, 0.5, 0.5]
    assert [trainer.history[epoch].meta["stage"] for epoch in (2, 3)] == ["main", "main"]


def stopping(epoch: int) -> Any:
    """Send a signal in an epoch, from 1."""

    def on_epoch_begin(number: int, logs: Any = None) -> None:
        if number == epoch - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return CallbackOf(on_epoch_begin=on_epoch_begin)


@pytest.mark.slow
@pytest.mark.parametrize("epoch", [pytest.param(2, marks=pytest.mark.backend), 5])
def test_a_run_with_two_calls_resumes_in_either(tmp_path: Path, epoch: int) -> None:
    with pytest.raises(TrainingInterrupted):
        run(params(tmp_path), TwiceTrainer, stopping(epoch))
    weights = Weights()
    trainer, logs = run(params(tmp_path), TwiceTrainer, weights, restore=True)
    assert weights.values == [*FIRST, *SECOND][epoch - 1 :]
    assert (weight(trainer), trainer.epoch, logs["loss"]) == (-7, 5, -12)
    assert SEEN[-1] == (5, 3)
    assert SEEN[2][1] == 2  # the code between the calls runs again
    assert sorted(map(int, json.loads((tmp_path / "history.json").read_text()))) == [1, 2, 3, 4, 5]


class ThriceTrainer(Trainer[LineTrainerParams]):
    """More epochs of the same count, then the rates from the beginning, then nothing that is left."""

    def fit(self) -> Logs:
        super().fit()
        self.params.epochs = 3
        super().fit()
        self.params.current_epoch = 0
        super().fit()
        return super().fit()


def test_rates_begin_again_with_the_count_of_epochs() -> None:
    made = params(None)
    made.gen.train.x = [1.0]
    made.learning_rate = ConstantParams(lr=1.0, rates=[1.0, 0.5, 0.25])
    trainer, _ = run(made, ThriceTrainer)
    assert [trainer.history[epoch].lr for epoch in trainer.history.epochs] == [1, 0.5, 0.25, 1, 0.5, 0.25]
    assert weight(trainer) == -3.5


def test_a_checkpoint_of_a_call_that_is_not_made_any_more(tmp_path: Path) -> None:
    with pytest.raises(TrainingInterrupted):
        run(params(tmp_path, export_final=True), TwiceTrainer, stopping(4))
    with pytest.raises(UsageError, match="^the checkpoint belongs to a later call of fit than the trainer has made: "):
        run(params(tmp_path, export_final=True), Trainer, restore=True)
    assert not (tmp_path / "export").exists()  # the model has none of the trained weights
    # The second call began with epoch 3.
    with pytest.raises(UsageError, match="to a call of fit that began with epoch 3, now one begins with epoch 2: let"):
        run(params(tmp_path, epochs=1), restore=True)


class CountingTrainer(Trainer[LineTrainerParams]):
    """Sets a number that the trainer of tfaip 1.2 read."""

    def setup_steps_per_epoch(self) -> None:
        self._steps_per_epoch = 1


def test_hooks_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    run(params(None, epochs=1), CountingTrainer)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "CountingTrainer sets _steps_per_epoch, which the training does not read: set self.params.samples_per_epoch, "
        "a number of samples"
    ]


def test_fit_alone_is_refused_and_a_trial_runs_all_calls(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    made = params(tmp_path / "run")
    trainer = TwiceTrainer(made, LineScenario(made.scenario))
    with pytest.raises(UsageError, match="^fit is a part of train: call train, and override fit to train a second"):
        trainer.fit()
    SEEN.clear()
    trainer.dry_run()
    assert [entry[:2] for entry in SEEN if isinstance(entry, tuple)] == [(1, 1), (2, 1), (2, 1), (2, 1)]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_methods_for_programs_that_continue_a_run(tmp_path: Path) -> None:
    made = params(tmp_path / "run", epochs=1)
    LineScenario.create_trainer(made).train()
    values = json.loads((tmp_path / "run/trainer_params.json").read_text())
    parsed = Trainer.parse_trainer_params(values)
    assert (type(parsed), parsed.epochs, parsed.scenario.cls()) == (LineTrainerParams, 1, LineScenario)
    trainer = Trainer.restore_trainer(tmp_path / "run/checkpoint")
    trainer.params.epochs = 2
    trainer.train()
    assert (weight(trainer), trainer.epoch, trainer.params.current_epoch) == (-4, 2, 2)
    with pytest.raises(UsageError, match="names no scenario"):
        Trainer.parse_trainer_params({})
    for name in ("restore_trainer", "parse_trainer_params"):
        own = type("Own", (Trainer,), {name: staticmethod(lambda path: None)})
        with pytest.raises(TypeError, match=rf"^Own\.{name} would never be called: override create_trainer"):
            own(params(None), LineScenario(LineScenario.default_params()))
