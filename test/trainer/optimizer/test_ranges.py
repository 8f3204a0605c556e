"""Ranges of the numbers of an optimizer: every field has one, and its ends give finite weights."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from keras import ops

from test.trainer.line import line_params, train
from test.trainer.optimizer.training import Training
from tfaip.params.fields import limits_of
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdaBeliefOptimizer,
    AdamOptimizer,
    GradientNoiseParams,
    OptimizerGroupParams,
    OptimizerParams,
)

CLASSES = [OptimizerParams, GradientNoiseParams, OptimizerGroupParams, *OPTIMIZERS]
NEEDED = {OptimizerGroupParams: {"match": "a"}, AdaBeliefOptimizer: {"rectify": False}}


def numbers(cls: type) -> list[str]:
    """The fields that hold a number, and no truth value."""
    declared = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return [name for name, type_ in declared.items() if type_.split(" | ")[0] in ("int", "float")]


@pytest.mark.parametrize("cls", CLASSES)
def test_every_number_of_every_optimizer_has_a_range(cls: type) -> None:
    for name in numbers(cls):
        limits = limits_of(cls, name)
        assert limits is not None, name
        assert limits.ends() != (None, None), name


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_a_border_that_is_allowed_gives_finite_weights(cls: type) -> None:
    # A gradient of 0 is among them, and a weight.
    for name in set(numbers(cls)) - set(numbers(OptimizerParams)):
        limits = limits_of(cls, name)
        assert limits is not None
        for end in (limits.low, limits.high):
            if end is None:
                continue
            value = int(end) if name == "ns_steps" else float(end)
            params = cls(**{**NEEDED.get(cls, {}), name: value})
            training = Training(params, {"kernel": [[1.0, 0.0, 2.0]] * 2, "bias": [0.0, 1.0]})
            for _ in range(3):
                values = training.step([[0.5, -1.0, 0.0]] * 2, [0.0, 1.0])
            assert all(bool(ops.all(ops.isfinite(ops.convert_to_tensor(v)))) for v in values), (name, value)


def test_a_number_is_refused_before_the_training_begins(tmp_path: Any) -> None:
    params = line_params([1.0], output_dir=tmp_path / "run", optimizer=AdamOptimizer())
    params.optimizer.beta_1 = 1.0  # set later, not in the constructor
    with pytest.raises(ValueError, match=r"beta_1 is 1.0, expected a number in \[0, 1\): change --optimizer.beta_1$"):
        train(params)
    assert not (tmp_path / "run").exists()
