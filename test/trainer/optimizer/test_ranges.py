"""Ranges of the numbers of an optimizer: every field has one, and its ends give finite weights."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import pytest
from keras import ops

from test.trainer.line import line_params, train
from test.trainer.optimizer.training import Training
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import limits_of
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdaBeliefOptimizer,
    AdamOptimizer,
    FtrlOptimizer,
    GradientNoiseParams,
    OptimizerGroupParams,
    OptimizerParams,
    RMSpropOptimizer,
)
from tfaip.trainer.params import TrainerParams

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


@pytest.mark.parametrize(
    ("cls", "fields"), [(AdamOptimizer, {"epsilon": 0.0}), (FtrlOptimizer, {"initial_accumulator_value": 0.0})]
)
def test_why_these_borders_are_refused(cls: type, fields: dict[str, float]) -> None:
    params = cls()
    for name, value in fields.items():
        setattr(params, name, value)  # after the check
    assert math.isnan(Training(params, {"w": 1.0}).step(0.0)[0])


def test_a_number_is_refused_before_the_training_begins(tmp_path: Any) -> None:
    params = line_params([1.0], output_dir=tmp_path / "run", optimizer=AdamOptimizer())
    params.optimizer.beta_1 = 1.0  # set later, not in the constructor
    with pytest.raises(ValueError, match=r"beta_1 is 1.0, expected a number in \[0, 1\): change --optimizer.beta_1$"):
        train(params)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--optimizer.beta_2 1", r"beta_2 is 1.0, expected a number in \[0, 1\): change --optimizer.beta_2$"),
        ("--optimizer RMSprop --optimizer.rho -0.1", r"rho is -0.1, expected .*: change --optimizer.rho$"),
        ("--optimizer.gradient_noise.gamma nan", "gamma is nan, .*: change --optimizer.gradient_noise.gamma$"),
    ],
)
def test_flags(flags: str, message: str) -> None:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    with pytest.raises(UsageError, match=message):
        parser.parse(["--trainer.output_dir", "unused", *flags.split()])


def test_a_class_of_the_user_has_the_ranges_that_it_inherits_and_no_others() -> None:
    @dataclass
    class Own(RMSpropOptimizer):
        gamma: float = -5.0

    assert Own().gamma == -5.0
    with pytest.raises(ValueError, match="rho is 1.0"):
        Own(rho=1.0)
