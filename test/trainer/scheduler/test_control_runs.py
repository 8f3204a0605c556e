"""Feedback controls, the history and what somebody edits in it, in real trainings."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import LineTrainerParams, Weights, line_params, train, weight
from tfaip.errors import UsageError
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.scheduler import ConstantParams, LearningRateParams, NewbobAbsParams, NewbobRelParams
from tfaip.trainer.stages.params import TrainStage
from tfaip.trainer.trainer import Trainer


def falling(output_dir: Path | None, learning_rate: LearningRateParams, **fields: Any) -> LineTrainerParams:
    """Every update lowers the weight by the rate, from 10 on; the validation loss is the weight."""
    params = line_params([1.0], [1.0], output_dir, learning_rate=learning_rate, **{"epochs": 5, **fields})
    params.scenario.model.start = 10.0
    return params


def control(**fields: Any) -> NewbobAbsParams:
    """Improvements by less than 0.6 let the rate decay; the third rate is too low for more."""
    return NewbobAbsParams(**{"lr": 1.0, "threshold": -0.6, "monitor": "val_loss", "rates": {3: 0.5}, **fields})


def records_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "history.json").read_text())


def rates_of(run: Path) -> list[float]:
    return [record["lr"] for record in records_of(run).values()]


@pytest.fixture(scope="module")
def three_epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three epochs with the rates 1, 1 and 0.5."""
    run = tmp_path_factory.mktemp("control") / "run"
    train(falling(run, control(), epochs=3))
    return run


def resumed(three_epochs: Path, copy: Path, learning_rate: LearningRateParams | None = None) -> Trainer[Any]:
    if not copy.exists():
        shutil.copytree(three_epochs, copy)
    return train(falling(copy, learning_rate or control()), restore=True)


def test_a_training_that_controls_its_rate(tmp_path: Path) -> None:
    weights = Weights()
    train(falling(tmp_path / "run", control()), weights)
    assert weights.values == [9.0, 8.0, 7.5, 7.25, 7.125]
    records = records_of(tmp_path / "run")
    assert [record["lr"] for record in records.values()] == [1.0, 1.0, 0.5, 0.25, 0.125]
    assert [record["effective_lr"] for record in records.values()] == [1.0, 1.0, 0.5, 0.25, 0.125]
    assert [record["values"]["val_loss"] for record in records.values()] == weights.values
    assert [record["meta"]["updates"] for record in records.values()] == [1, 2, 3, 4, 5]
    assert set(records["5"]["meta"]) == {"updates", "seconds", "dropped", "position", "versions", "stage", "best"}


@pytest.mark.slow
def test_a_resumed_training_decides_as_the_whole_one(three_epochs: Path, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    copy = Path(shutil.copytree(three_epochs, tmp_path / "copy", dirs_exist_ok=True))
    (copy / "history.json").write_text("{")
    with pytest.raises(UsageError, match="history.json: broken JSON in line 1"):
        resumed(three_epochs, copy)
    assert (copy / "history.json").read_text() == "{"
    (copy / "history.json").unlink()  # without one the checkpoint knows all
    assert weight(resumed(three_epochs, copy)) == 7.125
    assert rates_of(copy) == [1.0, 1.0, 0.5, 0.25, 0.125]


@pytest.mark.slow
def test_an_edited_history_is_respected(three_epochs: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(three_epochs, tmp_path / "copy"))
    records = records_of(copy)
    records["3"]["lr"] = 0.8  # the next one is half of it
    records["5"] = {"lr": 0.0625}  # chosen for an epoch to come
    (copy / "history.json").write_text(json.dumps(records))
    assert weight(resumed(three_epochs, copy)) == pytest.approx(7.5 - 0.4 - 0.0625)
    assert rates_of(copy) == [1.0, 1.0, 0.8, 0.4, 0.0625]


RATES_OF_RETURNN = "{\n2: EpochData(learningRate=0.25, error={'dev_score': 2.0}),\n}\n"


@pytest.mark.slow
def test_a_chosen_rate_wins_over_a_continuous_rule(tmp_path: Path) -> None:
    file, run, rule = tmp_path / "rates.json", tmp_path / "run", ConstantParams(lr=1.0)
    file.write_text('{"2": {"lr": 0.25}}')
    assert weight(train(falling(run, rule, epochs=3, history_file=str(file)))) == 10 - 1 - 0.25 - 1
    assert [record["lr"] for record in json.loads(file.read_text()).values()] == [1.0, 0.25, 1.0]
    assert not (run / "history.json").exists()
    assert json.loads((run / "trainer_params.json").read_text())["history_file"] == str(file)
    again = train(falling(run, rule, epochs=4, history_file=str(file)), restore=True)
    assert weight(again) == 10 - 1 - 0.25 - 1 - 1
    with pytest.raises(UsageError, match="gone is no directory: change --trainer.history_file"):
        train(falling(None, rule, history_file=str(tmp_path / "gone" / "rates.json")))


@pytest.mark.slow
def test_a_rate_file_of_returnn_gives_rates_and_is_never_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file, run, rule = tmp_path / "learning_rates", tmp_path / "run", ConstantParams(lr=1.0)
    file.write_text(RATES_OF_RETURNN)
    stages = {"early": TrainStage(epochs=3), "own": TrainStage(epochs=1, overrides={"learning_rate.lr": "0.5"})}
    train(falling(run, rule, history_file=str(file), stages=stages))
    assert f"rates of 1 epochs are those in {file}" in caplog.messages
    assert rates_of(run) == [1.0, 0.25, 1.0, 0.5, 1.0]
    assert json.loads((run / "trainer_params.json").read_text())["history_file"] is None
    with pytest.raises(UsageError, match="a learning_rate_file of RETURNN, which gives rates to a new training only"):
        train(falling(run, rule, epochs=6, history_file=str(file), stages=stages), restore=True)
    assert file.read_text() == RATES_OF_RETURNN
    # Nor is the history of another run.
    text = (run / "history.json").read_text()
    other = falling(tmp_path / "other", rule, epochs=3, history_file=str(run / "history.json"))
    assert weight(train(other)) == 7.75
    assert rates_of(tmp_path / "other") == [1.0, 0.25, 1.0, 0.5, 1.0]
    with pytest.raises(UsageError, match="history.json is that of another run, which gives rates to a new training"):
        train(other, restore=True)
    assert (run / "history.json").read_text() == text
    # Without an output directory there is no history at all.
    assert weight(train(falling(None, rule, epochs=3, history_file=str(file)))) == 7.75


def test_an_unknown_monitor_is_refused_before_the_first_batch(tmp_path: Path) -> None:
    params = falling(tmp_path / "run", control(monitor=["val_accuracy", "acc"]))
    with pytest.raises(
        UsageError,
        match="monitor is .*, expected a logged value .distance, loss, loss/mean.*change --learning_rate.monitor",
    ):
        train(params)
    assert not (tmp_path / "run").exists()


def swinging(output_dir: Path | None, restore_best: bool, **fields: Any) -> LineTrainerParams:
    """w^2 by SGD with momentum: the first rate, 2, is too high, the score gets worse and the rate decays."""
    rule = NewbobRelParams(lr=2.0, restore_best=restore_best)
    optimizer = SGDOptimizer(momentum=0.5)
    params = line_params([1.0], [1.0], output_dir, learning_rate=rule, optimizer=optimizer, **fields)
    params.scenario.model.loss, params.scenario.model.start = "square", 1.0
    return params


def sgd(w: float, velocity: float, rate: float) -> tuple[float, float]:
    velocity = 0.5 * velocity - rate * 2 * w
    return w + velocity, velocity


@pytest.mark.slow
@pytest.mark.backend
def test_the_best_weights_come_back_without_their_moments(tmp_path: Path) -> None:
    first, velocity = sgd(1.0, 0.0, 2.0)
    second, velocity = sgd(first, velocity, 2.0)
    assert second**2 > first**2
    for restores, third in ((True, sgd(first, 0.0, 1.0)[0]), (False, sgd(second, velocity, 1.0)[0])):
        weights = Weights()
        train(swinging(None, restores, epochs=3), weights)
        assert weights.values == pytest.approx([first, second, third])
        # Also from the checkpoint.
        run = tmp_path / str(restores)
        train(swinging(run, restores, epochs=2))
        assert weight(train(swinging(run, restores, epochs=3), restore=True)) == weights.values[2]


@pytest.mark.backend
def test_averages_begin_anew_at_the_best_weights(tmp_path: Path) -> None:
    train(swinging(tmp_path / "run", True, epochs=3, calc_ema=0.5))
    first, _ = sgd(1.0, 0.0, 2.0)
    third, _ = sgd(first, 0.0, 1.0)
    # The validation sees half of the last weight, and half of the best one.
    assert records_of(tmp_path / "run")["3"]["values"]["val_loss"] == pytest.approx((first / 2 + third / 2) ** 2)
