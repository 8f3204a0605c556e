"""Rates epoch by epoch, worked out by hand, and impossible params."""

import math
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.trainer.history import History
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import (
    SCHEDULES,
    ConstantParams,
    CosineDecayParams,
    ExponentialDecayParams,
    FunctionParams,
    Interpolation,
    InverseSqrtDecayParams,
    LearningRateParams,
    Mode,
    NewbobMultiEpochParams,
    NewbobRelParams,
    PiecewiseParams,
    PolynomialDecayParams,
    WarmupConstantParams,
    WarmupCosineDecayParams,
    WarmupExponentialDecayParams,
)

# Cosines of 0, 6, 12 ... 84 degrees.
COSINES = [1, 0.994521895368, 0.978147600734, 0.951056516295, 0.913545457643, 0.866025403784, 0.809016994375]
COSINES += [0.743144825477, 0.669130606359, 0.587785252292, 0.5, 0.406736643076, 0.309016994375, 0.207911690818]
COSINES += [0.104528463268]
HALF_TURN = [*COSINES, 0.0, *[-c for c in reversed(COSINES[1:])]]
# Powers 0, 0.1 ... 0.9 of 10.
TENTHS = [1, 1.258925411794, 1.584893192461, 1.995262314969, 2.511886431510]
TENTHS += [3.162277660168, 3.981071705535, 5.011872336273, 6.309573444802, 7.943282347243]
WARM = [0.1, 0.19, 0.28, 0.37, 0.46, 0.55, 0.64, 0.73, 0.82, 0.91]


def halves(*counts: int) -> list[float]:
    """Rates 1, 1/2, 1/4 ..., each for so many epochs."""
    return [0.5**power for power, count in enumerate(counts) for _ in range(count)]


def exponential(lr: float = 1.0, decay: float = 0.5, learning_circle: int = 1, **fields: Any) -> ExponentialDecayParams:
    return ExponentialDecayParams(lr=lr, decay=decay, learning_circle=learning_circle, **fields)


RATES: dict[str, tuple[LearningRateParams, list[float]]] = {
    "constant by default": (ConstantParams(), [0.001]),
    "exponential": (exponential(0.8), [0.8, 0.4, 0.2, 0.1, 0.05]),
    "exponential to a fraction": (exponential(10.0, decay_min_fraction=0.2), [10.0, 5.0, 2.5, 2.0, 2.0]),
    "exponential in circles after an offset": (exponential(offset_epochs=2, learning_circle=2), halves(4, 2, 2, 1)),
    "cosine": (CosineDecayParams(lr=1.0, alpha=0.1), [0.55 + 0.45 * c for c in HALF_TURN]),
    "cosine after an offset": (  # ten epochs with the first rate, then twenty from 1 to 0, 9 degrees each
        CosineDecayParams(lr=1.0, offset_epochs=10),
        [1.0] * 10 + [(1 + math.cos(math.radians(9 * x))) / 2 for x in range(20)],
    ),
    "linear": (PolynomialDecayParams(lr=3.0), [left / 10 for left in range(30, 0, -1)]),
    "square": (PolynomialDecayParams(lr=9.0, power=2.0, alpha=0.1), [0.9 + 0.009 * n**2 for n in range(30, 0, -1)]),
    "inverse square root": (InverseSqrtDecayParams(lr=6.0), [6 / math.sqrt(epoch) for epoch in range(1, 31)]),
    "linear warm-up": (WarmupConstantParams(lr=1.0, final_epochs=7), WARM + [1.0] * 20),
    "exponential warm-up": (
        WarmupConstantParams(lr=1.0, warmup=Interpolation.EXPONENTIAL),
        [0.1 * power for power in TENTHS] + [1.0] * 20,
    ),
    "warm-up and exponential": (
        WarmupExponentialDecayParams(
            lr=1.0, warmup_epochs=4, warmup_factor=4, constant_epochs=2, final_epochs=6, decay=0.5, learning_circle=3
        ),
        [0.25, 0.4375, 0.625, 0.8125, 1.0, 1.0] + halves(3, 3, 3, 3, 3, 3, 6),
    ),
    "warm-up and cosine": (  # fifteen epochs of decay, 12 degrees each
        WarmupCosineDecayParams(lr=1.0, warmup_epochs=5, warmup_factor=5, constant_epochs=5, final_epochs=5, alpha=0.1),
        [0.2, 0.36, 0.52, 0.68, 0.84] + [1.0] * 5 + [0.55 + 0.45 * c for c in HALF_TURN[::2]] + [0.1] * 5,
    ),
    "piecewise": (
        PiecewiseParams(lr=7.0, points={20: 0.25, 0: 1.0, 10: 0.5}),
        [1.0 - 0.05 * x for x in range(10)] + [0.5 - 0.025 * x for x in range(10)] + [0.25] * 10,
    ),
    "piecewise exponential": (
        PiecewiseParams(lr=10.0, points={10: 1.0, 20: 10.0}, interpolation=Interpolation.EXPONENTIAL),
        [10.0 / power for power in TENTHS] + TENTHS + [10.0] * 10,
    ),
}


@pytest.mark.parametrize("name", RATES)
def test_rates(name: str) -> None:
    params, table = RATES[name]
    params.epochs = len(table)
    rates = [params.rate(epoch, History()) for epoch in range(1, len(table) + 1)]
    assert rates == pytest.approx(table, rel=1e-9, abs=1e-12)


def test_piecewise_rates_are_exactly_those_typed() -> None:
    params = PiecewiseParams(lr=0.1, points={1: 0.3, 2: 0.7, 3.5: 1e-5})
    assert [params.rate(epoch, History()) for epoch in (1, 2, 3, 5, 1000)] == [0.1, 0.3, 0.7, 1e-5, 1e-5]
    # Half a unit before 3.5 two thirds of the way are done.
    assert params.rate(4, History()) == pytest.approx(0.7 + (1e-5 - 0.7) * 2 / 3)


def test_a_rate_per_epoch_is_enough_for_a_schedule_of_your_own() -> None:
    class Halving(LearningRateParams):
        def rule_rate(self, epoch: int, history: History) -> float:
            return self.lr / 2 ** (epoch - 1)

    assert Halving(lr=1.0).of_epoch(3, History()) == (0.25, 0.25, False)
    assert exponential(step_function=False).of_epoch(3, History()) == (0.25, 1.0, False)  # the step computes the rule
    with pytest.raises(ValueError, match="step_function is False, expected True, as Halving does not implement value"):
        Halving(step_function=False)


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (PiecewiseParams, {"points": {-1: 0.5}}, "points is {-1: 0.5, 0.0: 0.001}, expected values by number of"),
        (PiecewiseParams, {"points": {1: 0.0}, "interpolation": Interpolation.EXPONENTIAL}, "values above 0"),
        (NewbobRelParams, {"decay": "half"}, "decay is 'half', expected a number or module:function$"),
        (NewbobRelParams, {"min_lr": 0.1}, r"min_lr is 0.1, expected at most lr \(0.001\)$"),
        (NewbobRelParams, {"rates": {8: 0.1}, "epochs": 7}, "expected epochs from 1 to 7 of the training; one is 8$"),
        (NewbobMultiEpochParams, {"grow_threshold": 0.0}, "grow_threshold is 0.0, expected at most threshold"),
    ],
)
def test_impossible_values_name_the_field(cls: type, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**fields)


def parse(*flags: str) -> LearningRateParams:
    from tfaip.scenario.tutorial.min.scenario import MinScenario

    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *flags]).trainer.learning_rate


@pytest.mark.parametrize("cls", [cls for cls in SCHEDULES if cls is not FunctionParams])
def test_a_schedule_is_chosen_by_its_short_name(cls: type[LearningRateParams]) -> None:
    params = parse("--learning_rate", cls.__name__.removesuffix("Params"), "--learning_rate.lr", "0.5")
    assert (type(params), params.lr) == (cls, 0.5)
    with pytest.raises(UsageError, match="at most lr .*: change --learning_rate.min_lr or --learning_rate.lr$"):
        parse("--learning_rate", cls.__name__, "--learning_rate.min_lr", "1")


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("Constant --learning_rate.rates 0.1 1e-3", ConstantParams(rates=[0.1, 0.001])),
        ("Constant --learning_rate.rates 3=0.1 5=1e-3", ConstantParams(rates={3: 0.1, 5: 0.001})),
        (
            "NewbobRel --learning_rate.mode max --learning_rate.monitor lav_l0_acc val_acc --learning_rate.decay 0.9 "
            "--learning_rate.growth pkg.rates:more",
            NewbobRelParams(mode=Mode.MAX, monitor=["lav_l0_acc", "val_acc"], decay=0.9, growth="pkg.rates:more"),
        ),
    ],
)
def test_fields_are_flags(flags: str, expected: LearningRateParams) -> None:
    expected.epochs = 100
    assert parse("--learning_rate", *flags.split()) == expected
