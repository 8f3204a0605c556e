"""Rules at the boundary between two stages: best weights, precision, failed samples."""

from __future__ import annotations

from typing import Any

import pytest

from test.trainer.line import train
from test.trainer.scheduler.test_control_runs import sgd, swinging
from test.trainer.stages.stagedruns import Seen, stage, staged_params


@pytest.mark.slow
@pytest.mark.parametrize(("first", "overrides"), [(1, {}), (2, {"optimizer__clip_value": 1e9})])
def test_the_best_weights_are_those_of_the_stage(
    first: int, overrides: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    train(swinging(None, True, epochs=3, stages={"a": stage(first, **overrides)}), seen)
    # The rate 2 is too high: the score gets worse in epoch 2, and the rate decays to 1 before epoch 3.
    one, velocity = sgd(1.0, 0.0, 2.0)
    two, velocity = sgd(one, velocity, 2.0)
    assert two**2 > one**2
    if first == 1:
        # Epoch 2 is the only one of its stage: its weights stay, and the moments begin again.
        three, _ = sgd(two, 0.0, 1.0)
        assert "the rate decays: back to the weights of epoch 2" in caplog.text
    else:
        # No epoch of the stage is done: nothing comes back.
        three, _ = sgd(two, velocity, 1.0)
        assert "the rate decays: no best weights are kept" in caplog.text
    assert seen.weights == pytest.approx([one, two, three])


@pytest.mark.slow
@pytest.mark.backend
def test_a_stage_in_another_precision() -> None:
    seen = Seen()
    train(staged_params([1.0], {"half": stage(1, device__precision="mixed_bfloat16")}, epochs=2), seen)
    assert [model.graph.line.compute_dtype for model in seen.models] == ["bfloat16", "float32"]
    assert [model.graph.line.variable_dtype for model in seen.models] == ["float32", "float32"]
    assert seen.weights == [-1.0, -2.0]


@pytest.mark.slow
def test_samples_that_failed_count_in_each_pass() -> None:
    seen = Seen()
    stages = {"a": stage(1, train__x="7 8 9", train__fails_at=0)}
    params = staged_params([1.0, 2.0, 3.0], stages, epochs=2)
    params.gen.train.fails_at, params.gen.setup.train.on_error = 1, "skip:1"
    train(params, seen)
    # 8, 9, and 8 of the next pass, in which the same sample fails again; then 1, 3, and 1 of the next pass.
    assert seen.weights == [-25.0, -30.0]
    params.gen.setup.train.on_error = "skip:0"
    with pytest.raises(OSError, match="sample 0 cannot be read"):
        train(params)
