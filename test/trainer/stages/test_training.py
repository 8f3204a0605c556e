"""Stages in a real training: their epochs, rates, losses and data, and when a graph is built again."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import CallbackOf, LineScenario, LineTrainerParams, line_params, train
from test.trainer.scheduler.test_control_runs import sgd, swinging
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import UsageError
from tfaip.model.weightrules import TransferMode
from tfaip.model.weights import load_arrays
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import AdamOptimizer
from tfaip.trainer.scheduler import ConstantParams, NewbobAbsParams
from tfaip.trainer.stages.params import PredictStage, PretrainingParams, StageParams
from tfaip.trainer.transferparams import TransferParams


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


@pytest.mark.slow
def test_a_hook_gives_the_params_of_each_epoch() -> None:
    seen = Seen()
    params = staged_params([1.0], {}, epochs=5, pretraining=PretrainingParams(max_epochs=3))
    trainer = train(params, seen, scenario=RateOfEpochScenario)
    assert seen.lr == [2, 2, 3, 1, 1]
    assert seen.num_models() == 1
    stages = [trainer.history[epoch].meta["stage"] for epoch in range(1, 6)]
    assert stages == ["epoch.1", "epoch.1", "epoch.3", "main", "main"]


def test_the_history_names_the_stages(tmp_path: Path) -> None:
    run = tmp_path / "r"
    stages = {"a": stage(2), "b": stage(1, rate_control=False)}
    train(staged_params([1.0], stages, epochs=4, output_dir=run))
    history = json.loads((run / "history.json").read_text())
    named = [(record["meta"]["stage"], record["meta"].get("rate_control")) for record in history.values()]
    assert named == [("a", None), ("a", None), ("b", False), ("main", None)]
    assert "stage b: epochs 3 to 3" in (run / "train.log").read_text()


def test_a_model_that_is_applied_first_has_no_epochs(tmp_path: Path) -> None:
    run, stages = tmp_path / "r", {"p": PredictStage()}
    train(staged_params([1.0], stages, epochs=2, output_dir=run))
    assert re.findall("stage .* epochs .*", (run / "train.log").read_text()) == [
        "stage  epochs  what differs from the plain params",
        "stage main: epochs 1 to 2, the plain params",
    ]
    with pytest.raises(UsageError, match="^the run has trained up to epoch 2, but ends with 1$"):
        train(staged_params([1.0], stages, epochs=1, output_dir=run), restore=True)


def newbob(epochs: int, **fields: Any) -> dict[str, Any]:
    return {"epochs": epochs, "learning_rate": NewbobAbsParams(**{"lr": 1.0, **fields})}


EIGHT = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
HALF = {"samples_per_epoch": 4, "epochs": 2}
ZERO = {"learning_rate__lr": 0.0}
OTHER = stage(1, optimizer__clip_value=99.0)  # another model, for it clips
Run = tuple[list[float], dict[str, StageParams], dict[str, Any], list[float], dict[str, Any]]
# Samples, stages, params of the run; the weights after each epoch, worked out by hand, and what else is seen: rates,
# updates so far, models (else one). The weight begins with 0 and falls by rate * sample.
RUNS: dict[str, Run] = {
    # The scores of epochs 1 and 2 are equal: the control would decay the rate in epoch 3, and never raise it from 0.
    "scores count": ([1.0], {"a": stage(2, **ZERO)}, newbob(5), [0, 0, 0, 0, 0], {"lr": [0, 0, 0, 0, 0]}),
    "scores of a held rate do not": (
        *([1.0], {"a": stage(2, rate_control=False, **ZERO)}),
        *(newbob(5), [0, 0, -1, -2, -3], {"lr": [0, 0, 1, 1, 1]}),
    ),
    # Equal values: the first epoch of each stage is its best one. Stage a has 2 epochs, main stops after its third.
    "early stopping begins again": (
        *([1.0], {"a": stage(2)}, {**newbob(9, lr=0.0), "early_stopping": EarlyStoppingParams(n_to_go=3)}),
        *([0, 0, 0, 0, 0], {}),
    ),
    # Samples 1, 2 | 3, 1; as a batch 1 and 2 move the weight by their mean.
    "the stream goes on": (
        *([1.0, 2.0, 3.0], {"a": stage(1, train__batch_size=2)}, {"epochs": 2, "samples_per_epoch": 2}),
        *([-1.5, -5.5], {}),
    ),
    "other data begin with a pass": (
        *([1.0, 2.0, 3.0], {"a": stage(1, train__x="7 8 9")}, {"epochs": 3, "samples_per_epoch": 2}),
        *([-15, -18, -22], {}),
    ),
    # (1 + 2 + 3) / 3, then (4 + 5 + 6) / 3, of which 4 is a sample of the stage.
    "gradients are carried": (
        *(EIGHT, {"a": OTHER}, {**HALF, "train_accum_steps": 3}),
        *([-2, -7], {"updates": [1, 2], "models": 2}),
    ),
    # (1 + 2 + 3) / 3; 4 is dropped, and each sample moves.
    "another accumulation begins": (
        *(EIGHT, {"a": stage(1, trainer__train_accum_steps=3)}, HALF),
        *([-2, -28], {"updates": [1, 5], "models": 2}),
    ),
    # In bfloat16 the sample is 1. The first step of Adam is its rate, with the old count of updates 0.82 of it.
    "another precision and rule": (
        *([1.001], {"a": stage(1, optimizer="SGD", device__precision="mixed_bfloat16")}),
        *({"epochs": 2, "optimizer": AdamOptimizer(beta_1=0.5, beta_2=0.5)}, [-1, -2], {"models": 2}),
    ),
    "no transfer": (
        *([1.0], {"a": stage(2)}, {"epochs": 3, "transfer": TransferParams(mode=TransferMode.NONE)}),
        *([-1, -2, -1], {"models": 2}),
    ),
}


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("name", RUNS)
def test_runs_with_stages(name: str) -> None:
    x, stages, fields, weights, expected = RUNS[name]
    seen = Seen()
    trainer = train(staged_params(x, stages, **copy.deepcopy(fields)), seen)
    updates = [trainer.history[epoch].meta["updates"] for epoch in trainer.history.epochs]
    assert seen.weights == pytest.approx(weights, rel=1e-6)
    found = {"lr": seen.lr, "updates": updates, "models": seen.num_models()}
    assert {key: found[key] for key in {"models": 1, **expected}} == {"models": 1, **expected}


@pytest.mark.slow
def test_the_warm_start_is_that_of_the_first_stage_only(tmp_path: Path) -> None:
    source = tmp_path / "source"
    train(staged_params([1.0], {}, epochs=5, output_dir=source, export_final=True))
    seen = Seen()
    params = staged_params([1.0], {"a": stage(1), "b": stage(1, optimizer__clip_value=9.0)}, epochs=3)
    params.warmstart.model = [str(source / "export")]
    train(params, seen)
    assert seen.weights == [-6.0, -7.0, -8.0]


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_best_weights_are_those_of_the_stage(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()
    train(swinging(None, True, epochs=3, stages={"a": stage(1)}), seen)
    # The rate 2 is too high: the score gets worse in epoch 2, and the rate decays to 1 before epoch 3.
    one, velocity = sgd(1.0, 0.0, 2.0)
    two, velocity = sgd(one, velocity, 2.0)
    # Epoch 2 is the only one of its stage: its weights stay, and the moments begin again.
    three, _ = sgd(two, 0.0, 1.0)
    assert "the rate decays: back to the weights of epoch 2" in caplog.text
    assert seen.weights == pytest.approx([one, two, three])


def test_callbacks_read_the_status_of_each_stage_in_the_params_of_the_run() -> None:
    always = {"learning_rate": ConstantParams(lr=0.0), "early_stopping": EarlyStoppingParams(n_to_go=3)}
    trainer, seen = LineScenario.create_trainer(staged_params([1.0], {"a": stage(2)}, epochs=5, **always)), []

    def note(epoch: int, logs: Any) -> None:
        seen.append((trainer.params.current_epoch, trainer.params.early_stopping.n))

    trainer.train([CallbackOf(on_epoch_end=note)])
    assert seen == [(1, 1), (2, 2), (3, 1), (4, 2), (5, 3)]


def test_a_transfer_without_stages_is_named(caplog: pytest.LogCaptureFixture) -> None:
    train(line_params([1.0], transfer=TransferParams(exclude="w")))
    assert caplog.text.count("transfer has no effect on a run without stages") == 1
    train(staged_params([1.0], {"a": stage(1)}, epochs=2, transfer=TransferParams(mode=TransferMode.NONE)))
    assert caplog.text.count("no effect") == 1
