"""Stages in a real training: their epochs, rates, losses and data, and when a graph is built again."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import CallbackOf, LineScenario, LineTrainerParams, train
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.model.weights import load_arrays
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.scheduler import NewbobAbsParams
from tfaip.trainer.stages.params import PretrainingParams, TrainStage
from tfaip.trainer.transfer.params import TransferMode, TransferParams


class LossScaleScenario(LineScenario):
    """The weight of the loss grows from index to index, as `custom_construction_algo` of RETURNN's documentation."""

    @classmethod
    def pretraining(cls, idx: int, params: LineTrainerParams) -> LineTrainerParams | None:
        if idx == 5:
            return None
        params.loss_weights = {"loss": min(idx / 5, 1.0)}
        return params


@pytest.mark.slow
def test_a_hook_scales_the_loss_and_the_default_network_follows() -> None:
    seen = Seen()
    params = staged_params([1.0], {}, epochs=12, pretraining=PretrainingParams(repetitions=2))
    train(params, seen, scenario=LossScaleScenario)
    # Epochs 1-2: 0, 3-4: 0.2, ... 9-10: 0.8, from epoch 11 on the default network, whose loss has weight 1.
    assert seen.epochs == list(range(1, 13))
    expected = [0.0, 0.0, -0.2, -0.4, -0.8, -1.2, -1.8, -2.4, -3.2, -4.0, -5.0, -6.0]
    assert seen.weights == pytest.approx(expected, abs=1e-6)
    # One graph for all; the step is compiled again only when the loss begins to count.
    assert seen.num_models() == 1
    assert [seen.steps[0] is step for step in seen.steps] == [True] * 2 + [False] * 10
    assert len({id(step) for step in seen.steps[2:]}) == 1


class RateOfEpochScenario(LineScenario):
    """Another rate in the first three epochs."""

    @classmethod
    def params_for_epoch(cls, epoch: int, params: LineTrainerParams, **kwargs: Any) -> LineTrainerParams | None:
        if epoch == 4:
            return None
        params.learning_rate.lr = 2.0 if epoch < 3 else 3.0
        return params


class RateOfHistoryScenario(LineScenario):
    """As rate the number of epochs before."""

    @classmethod
    def params_for_epoch(cls, epoch: int, params: LineTrainerParams, history: Any, **kwargs: Any) -> Any:
        params.learning_rate.lr = float(len(history))
        return params


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scenario", "rates", "stages"),
    [
        (RateOfEpochScenario, [2, 2, 3, 1, 1], ["epoch.1", "epoch.1", "epoch.3", "main", "main"]),
        (RateOfHistoryScenario, [0, 1, 2, 1, 1], ["epoch.1", "epoch.2", "epoch.3", "main", "main"]),
    ],
)
def test_a_hook_gives_the_params_of_each_epoch(
    scenario: Any, rates: list[float], stages: list[str], tmp_path: Path
) -> None:
    seen = Seen()
    params = staged_params([1.0], {}, epochs=5, pretraining=PretrainingParams(max_epochs=3), output_dir=tmp_path / "r")
    train(params, seen, scenario=scenario)
    assert seen.lr == rates
    assert seen.num_models() == 1
    history = json.loads((tmp_path / "r" / "history.json").read_text())
    assert [record["meta"]["stage"] for record in history.values()] == stages


def test_the_history_names_the_stages(tmp_path: Path) -> None:
    params = staged_params(
        [1.0], {"a": stage(2), "b": stage(1, rate_control=False)}, epochs=4, output_dir=tmp_path / "r"
    )
    train(params)
    history = json.loads((tmp_path / "r" / "history.json").read_text())
    assert [record["meta"]["stage"] for record in history.values()] == ["a", "a", "b", "main"]
    assert [record["meta"].get("rate_control") for record in history.values()] == [None, None, False, None]
    part = json.loads((tmp_path / "r" / "stages" / "a" / "history.json").read_text())
    assert part == {epoch: history[epoch] for epoch in ("1", "2")}
    assert sorted(path.name for path in (tmp_path / "r" / "stages").iterdir()) == ["a", "b", "main"]
    for name in ("a", "b", "main"):
        assert (tmp_path / "r" / "stages" / name / "DONE").is_file()
    log = (tmp_path / "r" / "train.log").read_text()
    assert "stage b: epochs 3 to 3" in log


@pytest.mark.parametrize(("rate_control", "rates"), [(True, [0, 0, 0, 0, 0]), (False, [0, 0, 1, 1, 1])])
def test_a_stage_may_hold_the_rate_and_keep_its_scores_from_the_control(rate_control: bool, rates: list[float]) -> None:
    seen = Seen()
    params = staged_params(
        [1.0],
        {"a": stage(2, rate_control=rate_control, learning_rate__lr=0.0)},
        epochs=5,
        learning_rate=NewbobAbsParams(lr=1),
    )
    train(params, seen)
    # The scores of epochs 1 and 2 are equal: the control would decay the rate in epoch 3, and never raise it from 0.
    assert seen.lr == rates
    assert seen.weights == [-sum(rates[: n + 1]) for n in range(5)]


@pytest.mark.slow
def test_the_control_continues_after_a_stage_with_the_scores_before_it() -> None:
    seen = Seen()
    held = stage(2, rate_control=False, learning_rate__lr=0.5)
    rule = NewbobAbsParams(lr=1, threshold=-1.5)
    params = staged_params([1.0], {"a": stage(2), "held": held}, epochs=6, learning_rate=rule)
    train(params, seen)
    # Losses 0, -1 | -2, -2.5 | -3: epoch 5 compares 2 with 1 (-1 > -1.5), epoch 6 compares 5 with 2 (-2).
    assert seen.lr == [1, 1, 0.5, 0.5, 0.5, 0.5]


def test_a_stage_that_stops_early_leaves_its_other_epochs_out(tmp_path: Path) -> None:
    seen = Seen()
    stages = {"a": stage(5, learning_rate__lr=0.0, early_stopping__n_to_go=2)}
    params = staged_params([1.0], stages, epochs=7, output_dir=tmp_path / "r")
    train(params, seen)
    assert seen.epochs == [1, 2, 6, 7]
    assert seen.weights == [0, 0, -1, -2]


def test_early_stopping_counts_from_the_first_epoch_of_a_stage() -> None:
    seen = Seen()
    params = staged_params([1.0], {"a": stage(2, learning_rate__lr=0.0)}, epochs=5, learning_rate=None)
    params.learning_rate = NewbobAbsParams(lr=0.0)
    params.early_stopping.n_to_go = 3
    train(params, seen)
    # Equal values: the first epoch of each stage is its best one. Stage a has 2 epochs, main stops after its third.
    assert seen.epochs == [1, 2, 3, 4, 5]


def test_the_stream_of_samples_goes_on() -> None:
    seen = Seen()
    params = staged_params([1.0, 2.0, 3.0], {"a": stage(1, train__batch_size=2)}, epochs=2, samples_per_epoch=2)
    train(params, seen)
    # Samples 1, 2 | 3, 1; as a batch 1 and 2 move the weight by their mean.
    assert seen.weights == [-1.5, -5.5]
    assert seen.num_models() == 1


def test_other_data_begin_with_their_next_pass(tmp_path: Path) -> None:
    seen = Seen()
    stages = {"a": stage(1, train__x="7 8 9")}
    params = staged_params([1.0, 2.0, 3.0], stages, epochs=3, samples_per_epoch=2, output_dir=tmp_path / "r")
    train(params, seen)
    assert seen.weights == [-15.0, -18.0, -22.0]
    history = json.loads((tmp_path / "r" / "history.json").read_text())
    positions = [record["meta"]["position"] for record in history.values()]
    assert [(position["pass_index"], position["consumed"]) for position in positions] == [(0, 2), (1, 2), (2, 1)]


REBUILT = {
    "nothing": (
        {
            "learning_rate.lr": "0.5",
            "train.batch_size": "2",
            "train.x": "4 5",
            "trainer.val_every_n": "0",
            "trainer.loss_weights": "loss=0.5",
        },
        1,
    ),
    "clip": ({"optimizer.clip_value": "1"}, 2),
    "model": ({"model.start": "3"}, 2),
}


# What differs is compared in Python.
@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [pytest.param(change, marks=[pytest.mark.backend] * (change in ("nothing", "clip"))) for change in REBUILT],
)
def test_the_model_is_built_again_only_if_it_must(change: str) -> None:
    overrides, number = REBUILT[change]
    seen = Seen()
    stages = {"a": TrainStage(epochs=1, overrides=overrides), "b": TrainStage(epochs=1, overrides=overrides)}
    trainer = train(staged_params([1.0, 2.0], stages, epochs=4), seen)
    assert seen.models[0] is seen.models[1]
    assert seen.num_models() == number
    assert len({id(step) for step in seen.steps}) == number
    assert trainer.scenario.graph is seen.models[-1].graph


@pytest.mark.slow
@pytest.mark.backend
def test_accumulated_gradients_are_carried_into_the_next_stage() -> None:
    seen = Seen()
    # Another model, since it clips.
    stages = {"a": stage(1, optimizer__clip_value=100.0)}
    x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    train(staged_params(x, stages, epochs=2, samples_per_epoch=4, train_accum_steps=3), seen)
    # (1 + 2 + 3) / 3, then (4 + 5 + 6) / 3, of which 4 is a sample of the stage.
    assert seen.weights == [-2.0, -7.0]


@pytest.mark.slow
@pytest.mark.backend
def test_another_accumulation_begins_with_a_whole_update(tmp_path: Path) -> None:
    seen = Seen()
    params = staged_params(
        [1.0, 2.0, 3.0, 4.0],
        {"a": stage(1, trainer__train_accum_steps=3)},
        epochs=2,
        samples_per_epoch=4,
        output_dir=tmp_path / "r",
    )
    train(params, seen)
    assert seen.weights == [-2.0, -12.0]
    history = json.loads((tmp_path / "r" / "history.json").read_text())
    assert [record["meta"]["updates"] for record in history.values()] == [1, 5]


@pytest.mark.slow
@pytest.mark.backend
def test_moments_follow_their_weights() -> None:
    seen = Seen()
    # Another model, since it clips.
    stages = {"a": stage(2, optimizer__clip_value=9.0)}
    train(staged_params([1.0], stages, epochs=3, optimizer=SGDOptimizer(momentum=0.5)), seen)
    moves = [before - after for before, after in pairwise([0.0, *seen.weights])]
    assert seen.num_models() == 2
    assert moves == pytest.approx([1.0, 1.5, 1.75], abs=1e-4)


@pytest.mark.slow
def test_a_stage_without_transfer_begins_with_fresh_weights() -> None:
    seen = Seen()
    stages = {"a": stage(2)}
    params = staged_params([1.0], stages, epochs=3, transfer=TransferParams(mode=TransferMode.NONE))
    train(params, seen)
    assert seen.weights == [-1.0, -2.0, -1.0]
    assert seen.num_models() == 2


@pytest.mark.slow
def test_the_warm_start_is_that_of_the_first_stage_only(tmp_path: Path) -> None:
    source = tmp_path / "source"
    train(staged_params([1.0], {}, epochs=5, output_dir=source, export_final=True))
    seen = Seen()
    params = staged_params([1.0], {"a": stage(1), "b": stage(1, optimizer__clip_value=9.0)}, epochs=3)
    params.warmstart.model = [str(source / "export")]
    train(params, seen)
    assert seen.weights == [-6.0, -7.0, -8.0]


def test_the_best_model_is_that_of_the_last_stage(tmp_path: Path) -> None:
    # In stage a the loss falls to -2 with the weight -3; in main it falls from 3 to 1, with the weight 0 at last.
    params = staged_params([-1.0], {"a": stage(3, train__x="1")}, epochs=6, output_dir=tmp_path / "r", export_best=True)
    train(params)
    weights = load_arrays(tmp_path / "r" / "best" / "weights.safetensors")
    assert weights["line/kernel"].tolist() == [[0.0]]
    assert "Best epoch   loss/mean_epoch 1.0000 in epoch 6" in (tmp_path / "r" / "train.log").read_text()


def test_a_callback_ends_the_whole_training() -> None:
    seen = Seen()

    def stop(epoch: int, logs: Any) -> None:
        seen.model.stop_training = epoch == 1

    train(staged_params([1.0], {"a": stage(3)}, epochs=6), seen, CallbackOf(on_epoch_end=stop))
    assert seen.epochs == [1, 2]
