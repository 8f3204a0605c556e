"""What the numbers of an optimizer may be: every field, both ends."""

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
from tfaip.params.cli import ParamsParser
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
from tfaip.trainer.optimizer.ranges import RANGES, Range, ranges_of
from tfaip.trainer.params import TrainerParams

CLASSES = [OptimizerParams, GradientNoiseParams, OptimizerGroupParams, *OPTIMIZERS]
NEEDED = {OptimizerGroupParams: {"match": "a"}, AdaBeliefOptimizer: {"rectify": False}}


def numbers(cls: type) -> list[str]:
    """The fields that hold a number, and no truth value."""
    declared = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return [name for name, type_ in declared.items() if type_.split(" | ")[0] in ("int", "float")]


def build(cls: type, **fields: Any) -> Any:
    return cls(**{**NEEDED.get(cls, {}), **fields})


FIELDS = [(cls, name) for cls in CLASSES for name in numbers(cls)]


def test_every_number_of_every_optimizer_has_a_range() -> None:
    for cls in CLASSES:
        assert set(numbers(cls)) == set(ranges_of(cls)), cls
    assert set(RANGES) <= {cls.__name__ for cls in CLASSES}


@pytest.mark.parametrize(("cls", "name"), FIELDS)
def test_the_borders(cls: type, name: str) -> None:
    allowed = ranges_of(cls)[name]
    ends = [
        (low, belongs, math.nextafter(low, inwards), math.nextafter(low, -inwards))
        for low, belongs, inwards in (
            (allowed.low, allowed.has_low, math.inf),
            (allowed.high, allowed.has_high, -math.inf),
        )
        if math.isfinite(low)
    ]
    assert ends
    for end, belongs, inside, outside in ends:
        assert getattr(build(cls, **{name: inside}), name) == inside
        if belongs:
            assert getattr(build(cls, **{name: end}), name) == end
        for value in [outside, *([] if belongs else [end])]:
            with pytest.raises(ValueError, match=rf"^{name} is {value}, expected .*: change --optimizer.*\.{name}$"):
                build(cls, **{name: value})
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match=rf"^{name} is {value}, expected "):
            build(cls, **{name: value})


@pytest.mark.parametrize(
    ("allowed", "text"),
    [
        (Range(0, 1, has_high=False), "a number in [0, 1)"),
        (Range(0.6, 1, has_low=False), "a number in (0.6, 1]"),
        (Range(0), "a finite number from 0"),
        (Range(0, has_low=False), "a finite number above 0"),
        (Range(high=0), "a finite number up to 0"),
    ],
)
def test_a_range_in_words(allowed: Range, text: str) -> None:
    assert str(allowed) == text


@pytest.mark.backend
@pytest.mark.parametrize(
    ("cls", "name"), [(cls, name) for cls, name in FIELDS if cls in OPTIMIZERS and name not in numbers(OptimizerParams)]
)
def test_a_border_that_is_allowed_gives_finite_weights(cls: type, name: str) -> None:
    # A gradient of 0 is among them, and a weight.
    allowed = ranges_of(cls)[name]
    for end, belongs in ((allowed.low, allowed.has_low), (allowed.high, allowed.has_high)):
        if belongs and math.isfinite(end):
            value = int(end) if name == "ns_steps" else float(end)
            training = Training(build(cls, **{name: value}), {"kernel": [[1.0, 0.0, 2.0]] * 2, "bias": [0.0, 1.0]})
            for _ in range(3):
                values = training.step([[0.5, -1.0, 0.0]] * 2, [0.0, 1.0])
            assert all(bool(ops.all(ops.isfinite(ops.convert_to_tensor(v)))) for v in values), value


@pytest.mark.backend
@pytest.mark.parametrize(
    ("cls", "fields"), [(AdamOptimizer, {"epsilon": 0.0}), (FtrlOptimizer, {"initial_accumulator_value": 0.0})]
)
def test_why_these_borders_are_refused(cls: type, fields: dict[str, float]) -> None:
    params = cls()
    for name, value in fields.items():
        setattr(params, name, value)  # behind the check
    assert math.isnan(Training(params, {"w": 1.0}).step(0.0)[0])


def test_a_number_is_refused_before_the_training_begins(tmp_path: Any) -> None:
    params = line_params([1.0], output_dir=tmp_path / "run", optimizer=AdamOptimizer())
    params.optimizer.beta_1 = 1.0  # set later, not in the constructor
    with pytest.raises(ValueError, match=r"beta_1 is 1.0, expected a number in \[0, 1\): change --optimizer.beta_1"):
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


def test_an_integer_that_no_float_holds_is_in_no_bounded_range() -> None:
    assert 10**400 not in Range(0, 1)
    assert 10**400 in Range(0)
