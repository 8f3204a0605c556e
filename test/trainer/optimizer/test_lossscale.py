"""The loss scale of float16: what would be rounded to zero survives, what overflows is skipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import pytest

from test.trainer.line import LineScenario, line_params, train, weight
from test.trainer.optimizer.training import Training
from tfaip.device import DeviceConfigParams, Precision
from tfaip.trainer.loop import TrainingDiverged
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.params import TrainerParams

pytestmark = pytest.mark.backend


def half_params(x: list[float], output_dir: Path | None = None, **fields: Any) -> TrainerParams[Any, Any]:
    return line_params(x, output_dir=output_dir, device=DeviceConfigParams(precision=Precision.MIXED_FLOAT16), **fields)


def test_a_gradient_too_small_for_float16_arrives() -> None:
    # (w x - y)^2 with w = 0: the gradient is -2 y x = -2^-27, and the smallest number of float16 is 2^-24.
    params = half_params([2.0**-14])
    params.gen.train.y = [2.0**-14]
    params.scenario.model.loss = "square"
    assert weight(train(params)) == 2.0**-27


@pytest.mark.slow
def test_an_overflow_halves_the_scale_until_the_gradient_fits(tmp_path: Path) -> None:
    # 60000 * 2^15 is beyond float16, whose largest number is 65504: 15 updates are skipped until the scale is 1.
    params = half_params([60000.0] * 10, output_dir=tmp_path, lr=2.0**-30, epochs=2)
    whole = weight(train(params))
    assert whole == pytest.approx(-5 * 60000 * 2.0**-30, rel=1e-6)

    params = half_params([60000.0] * 10, output_dir=tmp_path, lr=2.0**-30, epochs=1, overwrite=True)
    assert weight(train(params)) == 0.0
    params.epochs = 2
    assert weight(train(params, restore=True)) == whole


def test_a_loss_that_is_not_a_number_ends_the_training_when_the_scale_is_lowest() -> None:
    trainer = LineScenario.create_trainer(half_params([float("nan")] * 20))
    with pytest.raises(TrainingDiverged, match="in batch 16 of epoch 1"):
        trainer.train()
    assert weight(trainer) == 0.0


def test_the_scale_doubles_after_many_updates_and_halves_after_an_overflow() -> None:
    training = Training(SGDOptimizer(), {"w": 0.0}, scales_loss=True)
    assert float(training.optimizer.scale_loss(keras.ops.convert_to_tensor(0.5))) == 0.5 * 2**15
    training.optimizer._loss_scale._good.assign(1998)
    assert (training.step(3.0 * 2**15), training.state()["loss_scale"]) == ([-3.0], 2**15)
    assert (training.step(2.0**15), training.state()["loss_scale"]) == ([-4.0], 2**16)
    assert training.state()["updates_at_loss_scale"] == 0
    assert training.step(2.0**16) == [-5.0]


def test_the_scale_is_the_same_for_all_batches_of_an_update() -> None:
    training = Training(SGDOptimizer(), {"w": 0.0}, scales_loss=True, accum_steps=2)
    assert (training.step(2.0**15), training.step(float("inf"))) == ([0.0], [0.0])
    assert training.state()["loss_scale"] == 2**14
    training.step(2.0**14)
    assert training.step(3.0 * 2**14) == [-2.0]
