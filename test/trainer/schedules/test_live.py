"""Values that change while the compiled step stays: each with the weights that follow by hand, on both backends."""

from __future__ import annotations

import copy
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.trainer.line import CallbackOf, PointsParams, Weights, by_hand, train
from test.trainer.schedules.support import TRACES, DeclaredScenario, LiveScenario, live_params, step
from tfaip.backend.active import backend
from tfaip.data.pipeline.definitions import Sample
from tfaip.predict.params import PredictorParams
from tfaip.trainer.optimizer import (
    AdaBeliefOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    LambOptimizer,
    LionOptimizer,
    MuonOptimizer,
    NadamOptimizer,
    OptimizerGroupParams,
    RMSpropOptimizer,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.params import GradientNoiseParams
from tfaip.trainer.scheduler.interpolation import Interpolation
from tfaip.trainer.schedules import ScheduleParams
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import TrainStage
from tfaip.trainer.weightrules import WeightNoiseParams, WeightPenaltyParams

pytestmark = pytest.mark.backend


FROM_TWO = {"start": 2.0}


PENALTY = [WeightPenaltyParams("line/kernel")]


class EachBatch(keras.callbacks.Callback):
    """Calls a function with the model after each batch."""

    def __init__(self, function: Callable[[Any], None]) -> None:
        super().__init__()
        self._function = function

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        backend.synchronize(self.model)
        self._function(self.model)


def weight_now(model: Any) -> float:
    """The weight within an epoch."""
    return float(keras.ops.convert_to_numpy(model.graph.line.kernel.value)[0, 0])


def weights_after(params: Any, **resume: Any) -> list[float]:
    """The weight after each epoch that is trained; nothing is compiled after the first one."""
    weights, counts = Weights(), []
    count = CallbackOf(on_epoch_end=lambda epoch, values: counts.append(len(TRACES)))
    TRACES.clear()
    train(params, weights, count, scenario=LiveScenario, **resume)
    assert params.force_eager or counts[0] == counts[-1] > 0, "the step was compiled again"
    return weights.values


@pytest.mark.parametrize(
    ("target", "values", "x", "fields", "expected"),
    [
        ("optimizer.clip_value", (1.0, 0.5), 3.0, {}, [-1.0, -1.5]),
        ("optimizer.clip_norm", (2.0, 0.5), 3.0, {}, [-2.0, -2.5]),
        ("optimizer.clip_global_norm", (2.0, 0.5), 3.0, {}, [-2.0, -2.5]),
        ("optimizer.weight_decay", (0.0, 0.1), 0.0, {"model": FROM_TWO}, [2.0, 1.8]),
        ("optimizer.momentum", (0.0, 0.5), 1.0, {}, [-1.0, -2.5]),
        ("loss_weights.loss", (1.0, 0.0), 3.0, {}, [-3.0, -3.0]),
        ("trainer.loss_weights.loss", (0.0, 0.5), 3.0, {}, [0.0, -1.5]),
        # The penalty is w^2, whose gradient is 2 w.
        (
            "scenario.input_gradient_regularization_lambda",
            (0.0, 0.25),
            0.0,
            {"model": FROM_TWO, "penalised": True},
            [2.0, 1.0],
        ),
        ("weight_penalties.0.l2", (0.0, 0.25), 0.0, {"model": FROM_TWO, "weight_penalties": PENALTY}, [2.0, 1.0]),
        ("weight_penalties.0.l1", (0.0, 0.25), 0.0, {"model": FROM_TWO, "weight_penalties": PENALTY}, [2.0, 1.75]),
        ("graph.sharpness", (1.0, 3.0), 1.0, {}, [-1.0, -4.0]),
        ("model.sharpness", (1.0, 3.0), 1.0, {}, [-1.0, -4.0]),
        ("model.offset", (0.0, 2.0), 1.0, {}, [-1.0, -4.0]),
        # x + x, then x alone; x, then a mask of it.
        ("graph.survival", (1.0, 0.0), 1.0, {"model": {"layer": "StochasticDepth"}}, [-2.0, -3.0]),
        ("graph.freq_width", (0.0, 1.0), 1.0, {"model": {"layer": "freq_width"}}, [-1.0, -1.0]),
        ("graph.time_width", (0.0, 1.0), 1.0, {"model": {"layer": "time_width"}}, [-1.0, -1.0]),
        ("graph.time_share", (0.0, 1.0), 1.0, {"model": {"layer": "time_share"}}, [-1.0, -1.0]),
        # Of the label 0, the gradient is sigmoid(w), then sigmoid(w) - 0.5.
        (
            "losses.crossentropy.label_smoothing",
            (0.0, 1.0),
            1.0,
            {"model": {"loss": "crossentropy"}},
            [-0.5, -1 / (1 + np.exp(0.5))],
        ),
        # Beyond the limits of the layer: as 1, and as 0.
        ("graph.survival", (3.0, -3.0), 1.0, {"model": {"layer": "StochasticDepth"}}, [-2.0, -3.0]),
        ("graph.drop.rate", (0.0, 1.0), 1.0, {"model": {"dropout": "Dropout"}}, [-1.0, -1.0]),
        (
            "optimizer.groups.0.lr_factor",
            (1.0, 0.25),
            1.0,
            {"optimizer": SGDOptimizer(groups=[OptimizerGroupParams("line/kernel", lr_factor=1.0)])},
            [-1.0, -1.25],
        ),
    ],
)
def test_a_live_value_changes_between_epochs(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    fields = copy.deepcopy(fields)
    penalised = fields.pop("penalised", False)
    params = live_params([x], step(target, *values), output_dir=tmp_path / "run", **fields)
    params.scenario.use_input_gradient_regularization = penalised
    params.scenario.input_gradient_regularization_h = 0.25
    whole = weights_after(params)
    np.testing.assert_allclose(whole, expected, rtol=1e-6)
    assert weights_after(params, restore=True, checkpoint="epoch_0001") == whole[1:]


def test_gradient_noise_that_begins_in_the_second_epoch() -> None:
    # With a gradient of 0 and large noise, a step is as long as the clip.
    optimizer = SGDOptimizer(clip_value=0.5, gradient_noise=GradientNoiseParams())
    first, second = weights_after(
        live_params([0.0], step("optimizer.gradient_noise.stddev", 0.0, 1000.0), optimizer=optimizer)
    )
    assert (first, abs(second)) == (0.0, 0.5)


def test_gradient_noise_has_the_deviation_of_its_update() -> None:
    # With a gradient of 0 a step is the noise: that of the second update, in the size of the schedule.
    def weights(*stddev: float) -> list[float]:
        return weights_after(live_params([0.0], step("optimizer.gradient_noise.stddev", *stddev)))

    first, both = weights(0.5)
    assert 0 != first != both - first != 0
    np.testing.assert_allclose(weights(0.0, 0.5), [0.0, both - first], rtol=1e-6)
    np.testing.assert_allclose(weights(0.5, 1.0), [first, first + 2 * (both - first)], rtol=1e-6)


def test_a_time_warp_that_begins_in_the_second_epoch() -> None:
    # The gradient is the value in the middle of a ramp: 1, and between 1/4 and 7/4 where a warp of 3 moves it.
    def weights(*widths: float) -> list[float]:
        return weights_after(live_params([1.0], step("graph.time_warp", *widths), model={"layer": "time_warp"}))

    first, second = weights(0.0, 3.0)
    fixed = weights(3.0)
    assert first == -1
    assert second == pytest.approx(-1 + fixed[1] - fixed[0], rel=1e-6)
    assert 0.25 < -1 - second < 1.75
    assert -1 - second != pytest.approx(1, abs=1e-3)


def test_the_value_of_a_stage_takes_the_place_of_a_schedule_while_it_lasts() -> None:
    # The gradient is 3: clipped to 0.25 in the stage, then to what the schedule has come to.
    stages = {"own": TrainStage(epochs=2, overrides={"optimizer.clip_value": 0.25}), "last": TrainStage(epochs=1)}
    params = live_params([3.0], step("optimizer.clip_value", 1.0, 1.0, 0.5), epochs=4, stages=stages)
    weights = Weights()
    trainer = train(params, weights, scenario=LiveScenario)
    np.testing.assert_allclose(weights.values, [-0.25, -0.5, -1.0, -1.5], rtol=1e-6)
    logged = [trainer.history.values(epoch).get("schedule/optimizer.clip_value") for epoch in (1, 2, 3, 4)]
    assert logged == [None, None, 0.5, 0.5]


def test_beta_1_of_adam() -> None:
    # Both moments are those of a constant gradient; only the correction of the bias differs: 1 / (1 - 0.5^2).
    params = live_params([2.0], step("optimizer.beta_1", 0.0, 0.5), optimizer=AdamOptimizer())
    np.testing.assert_allclose(weights_after(params), [-1.0, -1.0 - 4 / 3], rtol=1e-5)


@pytest.mark.parametrize(
    ("optimizer", "number", "second"),
    [
        (RMSpropOptimizer(), "momentum", -0.3),
        (MuonOptimizer(), "momentum", -0.3),
        (AdamaxOptimizer(), "beta_1", -0.3),
        (NadamOptimizer(), "beta_1", -0.3),
        (LambOptimizer(), "beta_1", -0.7),
        (LionOptimizer(), "beta_1", -0.05),
        (AdaBeliefOptimizer(), "beta_1", -0.3),
    ],
)
def test_every_update_rule_reads_the_number_from_its_variable(optimizer: Any, number: str, second: float) -> None:
    def weights(*schedules: ScheduleParams, **changes: Any) -> list[float]:
        chosen = type(optimizer)(**changes)
        return weights_after(live_params([1.0, second], *schedules, optimizer=chosen, lr=0.1, model=FROM_TWO))

    fixed = weights(**{number: 0.5})
    scheduled = weights(step(f"optimizer.{number}", 0.5))
    np.testing.assert_allclose(scheduled, fixed, rtol=1e-5)
    assert weights(step(f"optimizer.{number}", 0.9)) != pytest.approx(fixed, rel=1e-3)


def test_the_rate_of_the_averages() -> None:
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values))
    params = live_params([1.0], step("calc_ema", 0.5, 0.25), val_x=[1.0])
    train(params, keep, scenario=LiveScenario)
    # The weight is -1 and -2: 0.5 * 0 - 0.5 * 1, then 0.25 * -0.5 - 0.75 * 2.
    assert [values["val_loss"] for values in logs] == [-0.5, -1.625]


@pytest.mark.parametrize(
    "layer", ["Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D", "GaussianDropout"]
)
@pytest.mark.parametrize("rate", [0.0, 0.3])
def test_dropout_from_0_to_1_zeroes_the_activation(layer: str, rate: float) -> None:
    model = {"dropout": layer, "rate": rate}
    logs: list[dict[str, float]] = []
    keep, weights = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values)), Weights()
    params = live_params([1.0, 1.0], step("graph.drop.rate", 0.0, 1.0), model=model, val_x=[1.0])
    train(params, keep, weights, scenario=LiveScenario)
    # The gradient is 0 in the second epoch, and finite; the validation has no dropout.
    assert weights.values == [-2.0, -2.0]
    assert [values["loss"] for values in logs] == [-0.5, 0.0]
    assert [values["val_loss"] for values in logs] == [-2.0, -2.0]


def test_dropout_keeps_the_expectation() -> None:
    params = live_params(
        [1.0] * 20, step("graph.drop.rate", 0.75), model={"dropout": "Dropout"}, epochs=1, samples_per_epoch=2000
    )
    (weight,) = weights_after(params)
    # 2000 draws of 0 or 4 with the probabilities 3/4 and 1/4: mean 1, standard deviation sqrt(3).
    assert weight % 4 == 0
    assert abs(weight + 2000) < 4 * np.sqrt(3 * 2000)


def test_the_training_afterwards_has_the_rate_of_the_layer_again() -> None:
    trainer = LiveScenario.create_trainer(
        live_params([1.0], step("graph.drop.rate", 1.0), model={"dropout": "Dropout"}, epochs=1)
    )
    trainer.train()
    assert float(keras.ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0]) == 0.0
    trainer.params.schedules = []
    trainer.train()
    assert float(keras.ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0]) == -1.0


def test_an_exported_model_has_the_value_of_its_validation(tmp_path: Path) -> None:
    params = live_params([1.0], step("graph.sharpness", 1.0, 3.0), output_dir=tmp_path / "run", export_final=True)
    params.scenario.export_serve = True
    train(params, scenario=LiveScenario)
    predictor = LiveScenario.create_predictor(str(tmp_path / "run" / "export"), PredictorParams(silent=True))
    (sample,) = predictor.predict_raw([Sample(inputs={"x": np.array([0.5])})])
    # The weight is -1, then -4: 3 * -4 * 0.5.
    assert sample.outputs["y"].tolist() == [-6.0]


def test_a_value_without_a_schedule_is_that_of_the_code(tmp_path: Path) -> None:
    # The gradient is the sharpness.
    first = live_params([1.0], step("graph.sharpness", 5.0), epochs=1, output_dir=tmp_path / "run", export_final=True)
    assert weights_after(first) == [-5.0]
    assert weights_after(live_params([1.0], output_dir=tmp_path / "run"), restore=True) == [-6.0]
    warm = live_params([1.0], epochs=1, model={"sharp": 2.0})
    warm.warmstart.model = [str(tmp_path / "run" / "export")]
    assert weights_after(warm) == [-7.0]
    stages = {"own": TrainStage(epochs=1, overrides={"model.sharp": 5.0})}
    weights = Weights()
    train(live_params([1.0], stages=stages), weights, scenario=LiveScenario)
    assert weights.values == [-5.0, -6.0]


def test_label_smoothing_of_a_declared_loss() -> None:
    def weights(*schedules: ScheduleParams) -> list[float]:
        params = DeclaredScenario.default_trainer_params()
        params.gen.train, params.gen.val = PointsParams(x=[1.0], y=[1.0]), PointsParams()
        params.gen.setup.train.batch_size = 1
        params = by_hand(params, None, epochs=2, schedules=list(schedules))
        seen: list[float] = []
        keep = CallbackOf(
            on_epoch_end=lambda epoch, values: seen.append(float(keep.model.graph.network.weights[0][0, 0]))
        )
        train(params, keep, scenario=DeclaredScenario)
        return seen

    # The gradient is sigmoid(w) - 1, then sigmoid(0.5) - 0.5.
    scheduled = weights(step("losses.loss.label_smoothing", 0.0, 1.0))
    np.testing.assert_allclose(scheduled, [0.5, 0.5 - (1 / (1 + np.exp(-0.5)) - 0.5)], rtol=1e-5)
    # The object of the class has its own number again: sigmoid(w) - 0.75.
    np.testing.assert_allclose(weights(), [0.25, 0.25 - (1 / (1 + np.exp(-0.25)) - 0.75)], rtol=1e-5)


def test_eagerly() -> None:
    schedules = [
        ScheduleParams("optimizer.clip_value", {0: 1.0, 1: 0.5}, Interpolation.EXPONENTIAL),
        ScheduleParams("optimizer.momentum", {0: 0.1, 2: 0.5}, Interpolation.COSINE),
        step("model.sharpness", 1.0, 2.0),
        step("graph.drop.rate", 0.0, 1.0),
    ]
    model = {"dropout": "Dropout"}
    ours = weights_after(live_params([1.0, 3.0], *schedules, model=model, force_eager=True))
    np.testing.assert_allclose(ours, weights_after(live_params([1.0, 3.0], *schedules, model=model)), rtol=1e-6)


def noisy(tmp_path: Path | None, **fields: Any) -> Any:
    """A training in which everything is scheduled, most of it within epochs."""
    schedules = [
        ScheduleParams("optimizer.clip_global_norm", {0: 2.0, 1.5: 0.2}, Interpolation.EXPONENTIAL),
        ScheduleParams("optimizer.gradient_noise.stddev", {0.5: 0.1, 2: 0.0}),
        ScheduleParams("optimizer.momentum", {0: 0.1, 2: 0.9}, Interpolation.COSINE),
        ScheduleParams("calc_ema", {0: 0.5, 2: 0.9}),
        ScheduleParams("loss_weights.loss", {0: 1.0, 0.7: 0.5, 1.2: 1.5}),
        ScheduleParams("weight_noise.stddev", {0: 0.0, 1: 0.5}),
        ScheduleParams("weight_penalties.0.l2", {0: 0.1, 2: 0.2}),
        ScheduleParams("graph.drop.rate", {0: 0.0, 1: 0.5}),
        ScheduleParams("model.sharpness", {0: 1.0, 2: 2.0}),
        ScheduleParams("model.offset", {0: 0.0, 2: 0.5}),
    ]
    return live_params(
        [1.0, 2.0, -1.0, 0.5, 3.0, -2.0, 1.5],
        *schedules,
        val_x=[1.0, 2.0],
        output_dir=tmp_path,
        model={"dropout": "Dropout", "start": 1.0},
        lr=0.1,
        weight_penalties=PENALTY,
        write_checkpoints=tmp_path is not None,
        **fields,
    )


def outcome(params: Any, **arguments: Any) -> tuple[list[dict[str, float]], float]:
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))
    trainer = LiveScenario.create_trainer(params, **arguments)
    trainer.train([keep])
    return logs, float(keras.ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0])


def test_a_resume_and_the_steps_per_execution_change_nothing(tmp_path: Path) -> None:
    whole = outcome(noisy(None, epochs=3, steps_per_execution=1))
    assert all(np.isfinite(value) for values in whole[0] for value in values.values())
    # Between two epochs, and within the second one.
    params = noisy(tmp_path / "run", epochs=1, steps_per_execution=3)
    first = outcome(params)
    assert first[0] == whole[0][:1]
    params.epochs, params.steps_per_execution = 3, 1
    stop = EachBatch(lambda model: os.kill(os.getpid(), signal.SIGINT) if model.optimizer.batches == 10 else None)
    trainer = LiveScenario.create_trainer(params, restore=True)
    with pytest.raises(TrainingInterrupted):
        trainer.train([stop])
    params.steps_per_execution = 2
    assert outcome(params, restore=True) == (whole[0][1:], whole[1])


def test_nothing_is_compiled_again() -> None:
    counts: list[int] = []
    count = CallbackOf(on_epoch_end=lambda epoch, values: counts.append(len(TRACES)))
    TRACES.clear()
    train(noisy(None, epochs=3), count, scenario=LiveScenario)
    assert counts[0] == counts[-1] > 0


def test_the_noise_on_weights_is_that_of_the_update_and_none_in_the_validation() -> None:
    # loss = (w x)^2, x = 1, rate 0.5: the update sets w to minus the noise.
    def weights(stddev: float, **fields: Any) -> list[float]:
        model = {"loss": "square", "start": 1.0}
        noise = WeightNoiseParams(stddev)
        return weights_after(live_params([1.0] * 4, model=model, lr=0.5, epochs=1, weight_noise=noise, **fields))

    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(values))
    params = live_params(
        [1.0] * 500,
        val_x=[1.0],
        model={"loss": "square", "start": 0.0},
        lr=0.5,
        weight_noise=WeightNoiseParams(0.5, "line/.*"),
        steps_per_execution=1,
    )
    seen = Weights()
    moved: list[float] = []
    watch = EachBatch(lambda model: moved.append(weight_now(model)))
    train(params, keep, seen, watch, scenario=LiveScenario)
    noise = -np.array(moved)
    # The variance of 1000 draws has a relative standard deviation of sqrt(2 / 1000).
    assert noise.size == 1000
    assert abs(noise.var() / 0.25 - 1) < 4 * np.sqrt(2 / 1000)
    assert abs(noise.mean()) < 4 * 0.5 / np.sqrt(1000)
    assert len(set(moved)) == 1000
    assert logs[-1]["val_loss"] == pytest.approx(moved[-1] ** 2, rel=1e-5)
    (one,), (two,) = weights(0.5), weights(1.0)
    assert two == pytest.approx(2 * one, rel=1e-5)
    # Four batches of an update have the same noise, so that the mean of their gradients is that of one.
    (accumulated,) = weights(0.5, train_accum_steps=4)
    (single,) = weights_after(
        live_params(
            [1.0],
            model={"loss": "square", "start": 1.0},
            lr=0.5,
            epochs=1,
            weight_noise=WeightNoiseParams(0.5),
        )
    )
    assert accumulated == pytest.approx(single, rel=1e-5)


def test_noise_on_weights_that_begins_in_the_second_epoch() -> None:
    # loss = (w x)^2, x = 1, rate 0.5: the update sets w to minus the noise, which its number decides.
    model = {"loss": "square", "start": 1.0}
    (_, fixed) = weights_after(live_params([1.0], model=model, lr=0.5, weight_noise=WeightNoiseParams(0.5)))
    assert fixed != 0
    scheduled = weights_after(live_params([1.0], step("weight_noise.stddev", 0.0, 0.5), model=model, lr=0.5))
    np.testing.assert_allclose(scheduled, [0.0, fixed], rtol=1e-6)


def test_noise_of_a_layer_that_begins_in_the_second_epoch() -> None:
    # As above: the second update sets w to minus the noise, which grows with the deviation.
    model = {"loss": "square", "start": 1.0, "layer": "WeightNoise"}
    small, large = (
        weights_after(live_params([1.0], step("graph.stddev", 0.0, stddev), model=model, lr=0.5))
        for stddev in (0.5, 1.0)
    )
    assert small[0] == large[0] == 0
    assert small[1] != 0
    assert large[1] == pytest.approx(2 * small[1], rel=1e-5)


def test_penalties_of_several_rules_add_up() -> None:
    # l2 0.25 takes half of the weight 2 (gradient 2 w l2), l1 0.5 takes 0.5.
    rules = [WeightPenaltyParams("line/kernel", l2=0.25), WeightPenaltyParams(".*kernel", l1=0.5)]
    assert weights_after(live_params([0.0], model=FROM_TWO, weight_penalties=rules, epochs=1)) == [0.5]


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
