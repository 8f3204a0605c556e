"""Scheduled numbers of layers, losses and the optimizer: the weights that follow by hand, on both backends."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.trainer.line import CallbackOf, Weights, train
from test.trainer.schedules.support import EachBatch, LiveScenario, live_params, step, weight_now, weights_after
from tfaip.data.pipeline.definitions import Sample
from tfaip.predict.params import PredictorParams
from tfaip.trainer.optimizer import OptimizerGroupParams, SGDOptimizer
from tfaip.trainer.params import WeightNoiseParams, WeightPenaltyParams
from tfaip.trainer.scheduledvalues import ScheduleParams
from tfaip.trainer.stages.params import TrainStage

PENALTY = [WeightPenaltyParams("line/kernel")]


FROM_TWO = {"start": 2.0}
GROUPED = SGDOptimizer(groups=[OptimizerGroupParams("line/kernel", lr_factor=1.0)])
# By target: its values in two epochs, the sample, other params, and the weight after each epoch.
VALUES: dict[str, tuple[tuple[float, float], float, dict[str, Any], list[float]]] = {
    "graph.sharpness": ((1.0, 3.0), 1.0, {}, [-1.0, -4.0]),
    "model.offset": ((0.0, 2.0), 1.0, {}, [-1.0, -4.0]),
    "trainer.loss_weights.loss": ((0.0, 0.5), 3.0, {}, [0.0, -1.5]),
    "optimizer.weight_decay": ((0.0, 0.1), 0.0, {"model": FROM_TWO}, [2.0, 1.8]),
    "optimizer.groups.0.lr_factor": ((1.0, 0.25), 1.0, {"optimizer": GROUPED}, [-1.0, -1.25]),
    "optimizer.clip_global_norm": ((2.0, 0.5), 3.0, {}, [-2.0, -2.5]),
    "optimizer.momentum": ((0.0, 0.5), 1.0, {}, [-1.0, -2.5]),
    # x, then a mask of it.
    "graph.freq_width": ((0.0, 1.0), 1.0, {"model": {"layer": "freq_width"}}, [-1.0, -1.0]),
    # Beyond the limits of the layer: as 1, so that x is doubled, and as 0.
    "graph.survival": ((3.0, -3.0), 1.0, {"model": {"layer": "StochasticDepth"}}, [-2.0, -3.0]),
    # The penalty is w^2, whose gradient is 2 w.
    "input_gradient_regularization_lambda": ((0.0, 0.25), 0.0, {"model": FROM_TWO, "penalised": True}, [2.0, 1.0]),
    "weight_penalties.0.l2": ((0.0, 0.25), 0.0, {"model": FROM_TWO, "weight_penalties": PENALTY}, [2.0, 1.0]),
}


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize("target", VALUES)
def test_a_value_changes_between_epochs(target: str, tmp_path: Path) -> None:
    values, x, fields, expected = VALUES[target]
    fields = copy.deepcopy(fields)
    penalised = fields.pop("penalised", False)
    params = live_params([x], step(target, *values), output_dir=tmp_path / "run", **fields)
    params.scenario.use_input_gradient_regularization = penalised
    params.scenario.input_gradient_regularization_h = 0.25
    whole = weights_after(params)
    np.testing.assert_allclose(whole, expected, rtol=1e-6)
    # Also after a resume between the epochs.
    assert weights_after(params, restore=True, checkpoint="epoch_0001") == whole[1:]


@pytest.mark.slow
@pytest.mark.parametrize("layer", ["Dropout", "GaussianDropout"])
def test_the_rate_of_a_dropout_is_that_of_the_epoch_in_the_training_only(layer: str) -> None:
    logs: list[dict[str, float]] = []
    keep, weights = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values)), Weights()
    model, rates = {"dropout": layer, "rate": 0.5}, step("graph.drop.rate", 0.0, 0.75, 0.0)
    trainer = LiveScenario.create_trainer(live_params([1.0, 1.0], rates, model=model, val_x=[1.0], epochs=3))
    trainer.train([keep, weights])
    first, second, third = weights.values
    # The gradient is 1 twice, then twice 0 or 4 (or any number), then 1 again.
    assert (first, third) == (-2.0, pytest.approx(second - 2))
    moved = first - second
    assert moved in (0, 4, 8) if layer != "GaussianDropout" else moved != pytest.approx(2)
    assert [values["val_loss"] for values in logs] == [first, second, third]
    assert [values["schedule/graph.drop.rate"] for values in logs] == [0.0, 0.75, 0.0]
    assert trainer.scenario.graph.drop.rate == 0.5


@pytest.mark.backend
def test_an_exported_model_has_the_value_of_its_validation(tmp_path: Path) -> None:
    params = live_params([1.0], step("graph.sharpness", 1.0, 3.0), output_dir=tmp_path / "run", export_final=True)
    params.scenario.export_serve = True
    train(params, scenario=LiveScenario)
    predictor = LiveScenario.create_predictor(str(tmp_path / "run" / "export"), PredictorParams(silent=True))
    (sample,) = predictor.predict_raw([Sample(inputs={"x": np.array([0.5])})])
    # The weight is -1, then -4: 3 * -4 * 0.5.
    assert sample.outputs["y"].tolist() == [-6.0]


@pytest.mark.slow
def test_a_value_without_a_schedule_is_that_of_the_code(tmp_path: Path) -> None:
    # The gradient is the sharpness.
    first = live_params([1.0], step("graph.sharpness", 5.0), epochs=1, output_dir=tmp_path / "run", export_final=True)
    assert weights_after(first) == [-5.0]
    assert weights_after(live_params([1.0], output_dir=tmp_path / "run"), restore=True) == [-6.0]
    stages = {"own": TrainStage(epochs=1, overrides={"model.sharp": 5.0})}
    weights = Weights()
    train(live_params([1.0], stages=stages), weights, scenario=LiveScenario)
    assert weights.values == [-5.0, -6.0]


def test_penalties_of_several_rules_add_up() -> None:
    # l2 0.25 takes half of the weight 2 (gradient 2 w l2), l1 0.5 takes 0.5.
    rules = [WeightPenaltyParams("line/kernel", l2=0.25), WeightPenaltyParams(".*kernel", l1=0.5)]
    assert weights_after(live_params([0.0], model=FROM_TWO, weight_penalties=rules, epochs=1)) == [0.5]


@pytest.mark.slow
@pytest.mark.backend
def test_gradient_noise_has_the_deviation_of_its_update() -> None:
    # With a gradient of 0 a step is the noise: that of the second update, in the size of the schedule.
    def weights(*stddev: float) -> list[float]:
        return weights_after(live_params([0.0], step("optimizer.gradient_noise.stddev", *stddev)))

    first, both = weights(0.5)
    assert 0 != first != both - first != 0
    np.testing.assert_allclose(weights(0.0, 0.5), [0.0, both - first], rtol=1e-6)
    np.testing.assert_allclose(weights(0.5, 1.0), [first, first + 2 * (both - first)], rtol=1e-6)


@pytest.mark.backend
def test_an_update_of_several_batches_has_the_value_of_its_first() -> None:
    # Updates begin with batches 0 and 2 of 4: clips 1 and 0.5.
    schedule = ScheduleParams("optimizer.clip_value", {0: 1.0, 0.5: 0.5, 1: 0.25})
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))
    moved: list[float] = []
    watch = EachBatch(lambda model: moved.append(weight_now(model)))
    params = live_params([3.0] * 4, schedule, train_accum_steps=2, epochs=1, steps_per_execution=1)
    train(params, keep, watch, scenario=LiveScenario)
    np.testing.assert_allclose(moved, [0.0, -1.0, -1.0, -1.5], rtol=1e-6)
    assert logs[0]["schedule/optimizer.clip_value"] == 0.5


@pytest.mark.slow
@pytest.mark.backend
def test_the_noise_on_weights_is_that_of_the_update_and_none_in_the_validation() -> None:
    # loss = (w x)^2, x = 1, rate 0.5: the update sets w to minus the noise.
    def weights(x: list[float], stddev: float, *callbacks: Any, **fields: Any) -> list[float]:
        fields = {"epochs": 1, "weight_noise": WeightNoiseParams(stddev, "line/.*"), **fields}
        params = live_params(x, model={"loss": "square", "start": 1.0}, lr=0.5, **fields)
        trained = Weights()
        train(params, trained, *callbacks, scenario=LiveScenario)
        return trained.values

    logs: list[dict[str, float]] = []
    moved: list[float] = []
    watch = EachBatch(lambda model: moved.append(weight_now(model)))
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values))
    weights([1.0] * 1000, 0.5, keep, watch, val_x=[1.0], steps_per_execution=1)
    # The variance of 1000 draws has a relative standard deviation of sqrt(2 / 1000).
    assert len(set(moved)) == 1000
    assert abs(np.var(moved) / 0.25 - 1) < 4 * np.sqrt(2 / 1000)
    assert abs(np.mean(moved)) < 4 * 0.5 / np.sqrt(1000)
    assert logs[-1]["val_loss"] == pytest.approx(moved[-1] ** 2, rel=1e-5)
    # Four batches of an update have the same noise, so that the mean of their gradients is that of one.
    assert weights([1.0] * 4, 0.5, train_accum_steps=4) == pytest.approx(weights([1.0], 0.5), rel=1e-5)
    # Its number decides the noise of an update, also of the first one that has any.
    fixed = weights([1.0], 0.5, epochs=2)[1]
    begins = {"schedules": [step("weight_noise.stddev", 0.0, 0.5)], "epochs": 2}
    np.testing.assert_allclose(weights([1.0], 0.0, **begins), [0.0, fixed], rtol=1e-6)


@pytest.mark.slow
def test_the_value_of_a_stage_takes_the_place_of_a_schedule_while_it_lasts() -> None:
    # The gradient is 3: clipped to 0.25 in the stage, then to what the schedule has come to.
    stages = {"own": TrainStage(epochs=2, overrides={"optimizer.clip_value": 0.25}), "last": TrainStage(epochs=1)}
    params = live_params([3.0], step("optimizer.clip_value", 1.0, 1.0, 0.5), epochs=4, stages=stages)
    weights = Weights()
    trainer = train(params, weights, scenario=LiveScenario)
    np.testing.assert_allclose(weights.values, [-0.25, -0.5, -1.0, -1.5], rtol=1e-6)
    logged = [trainer.history.values(epoch).get("schedule/optimizer.clip_value") for epoch in (1, 2, 3, 4)]
    assert logged == [None, None, 0.5, 0.5]
