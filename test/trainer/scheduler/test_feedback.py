"""Decisions of the feedback controls, worked out by hand."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import UsageError
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler import (
    ConstantParams,
    Decision,
    Divisor,
    FeedbackParams,
    LearningRateParams,
    Mode,
    NewbobAbsParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
    PolynomialDecayParams,
    ReduceOnPlateauParams,
)

NAN, INF = math.nan, math.inf
GOLDEN = [2.0, 1.9, 1.895, 1.894]


def rates(params: LearningRateParams, *scores: float | None) -> list[float]:
    """The rates of epochs with these scores (None: not evaluated), and that of the epoch behind them."""
    history = History()
    for epoch, score in enumerate(scores, start=1):
        values = {} if score is None else {"s": score}
        history.record(epoch, EpochRecord(params.rate(epoch, history), values))
    return [history[e].lr for e in history.epochs] + [params.rate(len(scores) + 1, history)]


def rel(**fields: Any) -> NewbobRelParams:
    return NewbobRelParams(**{"lr": 0.01, "monitor": "s", **fields})


def multi(**fields: Any) -> NewbobMultiEpochParams:
    return NewbobMultiEpochParams(**{"lr": 1.0, "monitor": "s", **fields})


FLAT: list[float | None] = [1.0] * 8
MAX = [0.5, 0.6, 0.6, 0.7]
OLD = Divisor.OLD


def plateau(**fields: Any) -> ReduceOnPlateauParams:
    return ReduceOnPlateauParams(lr=1.0, monitor="s", patience_epochs=2, **fields)


# Params, scores, and the last of the rates: of the epochs with these scores, and of the next one.
RATES: dict[str, tuple[FeedbackParams, list[Any], list[float]]] = {
    "golden": (rel(), GOLDEN, [0.01, 0.01, 0.01, 0.005, 0.0025]),
    "golden with a bound": (rel(min_lr=0.004), GOLDEN, [0.01, 0.01, 0.01, 0.005, 0.004]),
    "better by less": (rel(lr=1.0), [2.0, 1.99], [0.5]),
    # (0.75 - 1) / 1 = -0.25, which floats hold exactly.
    "the threshold itself": (rel(lr=1.0, threshold=-0.25, divide_by=OLD), [1.0, 0.75], [1.0]),
    "growth": (rel(lr=1.0, growth=2.0, max_lr=3.0), [4.0, 3.0, 2.0, 1.0, 1.0], [1, 1, 2, 3, 3, 1.5]),
    "max": (rel(lr=1.0, mode=Mode.MAX), MAX, [1, 1, 1, 0.5, 0.5]),
    # -2 -> -4 halves: (-4 + 2) / 4 = -0.5.
    "negative, enough": (rel(lr=1.0, threshold=-0.49), [-2.0, -4.0], [1.0]),
    # val_every_n = 2: the scores of epochs 2, 4, 6 are compared; epochs 4, 6 and 8 hold.
    "gaps": (rel(lr=1.0), [None, 2.0, None, 1.9, None, 1.9, None], [1, 1, 1, 1, 1, 1, 0.5, 0.5]),
    "listed": (rel(lr=1.0, rates=[0.125, 8.0], min_lr=0.5, max_lr=4.0), FLAT[:5], [0.125, 8.0, 4.0, 2.0, 1.0, 0.5]),
    "listed, no scores": (rel(lr=1.0, rates={2: 0.5, 4: 0.25}), [None] * 5, [1, 0.5, 0.5, 0.25, 0.25, 0.25]),
    # Epochs 3, 5 and 7 may act: before 3 there is no change yet, 5 has a new score, 7 has none.
    "multi with gaps": (
        multi(window_epochs=5, update_every_n_epochs=2),
        [1.0, None, 1.0, None, None, None, None],
        [1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5],
    ),
    # 1.99 and 1.98 are no improvement over 2 by more than 1 percent of the new score, 1.5 is.
    "plateau": (plateau(), [2.0, 1.99, 1.985, 1.5, 1.6, 1.6, 1.6, 1.6], [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]),
}


def test_a_value_that_only_lav_has_may_be_named_as_one_of_the_validation() -> None:
    best, logged = BestModel("min", "val_loss"), ["loss", "val_loss"]
    params = rel(monitor=["val_cer", "val_loss", "lav_l1_cer"])
    params.check_run(best, logged, logs_lav=True)
    assert params.monitored() == ["lav_l0_cer", "val_loss", "lav_l1_cer"]
    params.check_run(best, [*logged, "val_cer"], logs_lav=True)
    assert params.monitored() == ["val_cer", "val_loss", "lav_l1_cer"]


@pytest.mark.parametrize("name", RATES)
def test_rates(name: str) -> None:
    params, scores, expected = RATES[name]
    assert rates(params, *scores)[-len(expected) :] == expected


ODD_SCORES = [(1.0, NAN, 0.5), (1.0, INF, 0.5), (1.0, -INF, 0.5), (NAN, 1.0, 2.0), (NAN, NAN, 0.5)]
# 0 / 0 is defined as 0, above -0.01; then -1 / 0 and 1 / 0.
ODD_SCORES += [(0.0, 0.0, 0.5), (1.0, 0.0, 2.0), (-1.0, 0.0, 0.5)]


@pytest.mark.parametrize(("first", "second", "rate"), ODD_SCORES)
def test_zeros_and_values_that_are_not_finite(first: float, second: float, rate: float) -> None:
    assert rates(rel(lr=1.0, growth=2.0), first, second)[-1] == rate
    # Either of the two differences is infinite, or the only one.
    assert rates(multi(growth=2.0, window_epochs=2, update_every_n_epochs=1), first, second)[-1] == rate


def test_the_first_monitored_value_that_there_is() -> None:
    history = History({e: EpochRecord(1.0, {"loss": 1.0, "val_loss": 2.0 - e / 2}) for e in (1, 2)})
    assert rel(monitor=["loss"]).decision(3, history) is Decision.DECAY
    assert rel(monitor=["lav_l0_cer", "val_loss", "loss"]).decision(3, history) is Decision.GROW
    assert rel(monitor="other").decision(3, history) is Decision.HOLD


def test_by_default_it_follows_the_best_model() -> None:
    params, best, logged = NewbobRelParams(lr=1.0), BestModel("max", "val_acc"), ["loss", "val_acc"]
    params.check_run(best, logged, logs_lav=False)
    history = History({e: EpochRecord(1.0, {"val_acc": e / 2, "loss": 1.0}) for e in (1, 2)})
    assert params.decision(3, history) is Decision.GROW
    params.monitor = "loss"
    params.check_run(best, logged, logs_lav=False)
    assert params.decision(3, history) is Decision.DECAY  # min: it is another value


def test_unknown_monitors_are_told_with_what_there_is() -> None:
    best = BestModel("min", "val_loss")
    with pytest.raises(UsageError, match=r"^monitor is 'accuracy', expected a logged value \(loss, val_loss\)$"):
        rel(monitor="accuracy").check_run(best, ["val_loss", "loss"], logs_lav=False)
    params = rel(monitor="lav_l0_cer")
    params.check_run(best, ["loss"], logs_lav=True)
    params.check_lav(["lav_l0_cer", "val_loss"])
    with pytest.raises(UsageError, match=r"expected a logged value \(lav_l0_wer\)"):
        params.check_lav(["lav_l0_wer"])


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (rel(lr=1.0, min_lr=0.25, restore_best=True), [3, 4]),
        (plateau(min_lr=0.25, restore_best=True), [4, 6]),
        (rel(lr=1.0, rates=[0.1, 0.1], min_lr=0.25, restore_best=True), []),  # the bound raises the rate
    ],
)
def test_best_weights_do_not_come_back_again_and_again_at_the_lowest_rate(
    params: FeedbackParams, expected: list[int]
) -> None:
    history = History()
    for epoch in range(1, 11):
        history.record(epoch, EpochRecord(params.rate(epoch, history), {"s": 2.0}))
    assert history[10].lr == 0.25
    assert params.decision(11, history) is Decision.DECAY
    assert [epoch for epoch in range(1, 11) if params.keeps_best(epoch, history)] == [1]
    assert [epoch for epoch in range(1, 12) if params.restores_best(epoch, history)] == expected


def halve(rate: float) -> float:
    return rate / 2


def double(rate: float) -> float:
    return 2 * rate


def lose(rate: float) -> float:
    return NAN


def test_functions_of_the_user() -> None:
    here = __name__
    for decay, growth, expected in (
        (f"{here}:halve", f"{here}:double", [1, 1, 2, 1]),
        (1, 2, [1, 1, 2, 2]),  # an integer is as good as a float
        (f"{here}:double", f"{here}:halve", [1, 1, 1, 1]),  # a decay never raises a rate, a growth never lowers it
    ):
        assert rates(rel(lr=1.0, decay=decay, growth=growth), 2.0, 1.0, 1.0) == expected
    with pytest.raises(UsageError, match="lose', expected a function that returns a rate: for 1.0 it returned nan$"):
        rates(rel(lr=1.0, decay=f"{here}:lose"), 1.0, 1.0)
    with pytest.raises(UsageError, match="decay is .*gone', expected a function that module .* has"):
        rel(decay=f"{here}:gone").check_run(BestModel("min", "s"), ["s"], logs_lav=False)


@pytest.mark.parametrize("cls", [ConstantParams, NewbobRelParams])
def test_listed_rates_know_no_bounds_also_if_lr_is_one_of_them(cls: type[LearningRateParams]) -> None:
    params, history = cls(lr=1e-5, rates=[1e-5, 1e-4, 1e-3], min_lr=2e-4), History()
    found = [history.set_default_rate(epoch, params.rate(epoch, history)) for epoch in range(1, 6)]
    assert found == [1e-5, 1e-4, 1e-3, 1e-3, 1e-3]
    # Without a listed rate of epoch 1 `lr` is its rate; a rule of time reads it later.
    for other, listed in ((cls, []), (cls, {2: 1e-4}), (PolynomialDecayParams, [1e-5])):
        with pytest.raises(ValueError, match=r"min_lr is 0.0002, expected at most lr \(1e-05\)"):
            other(lr=1e-5, rates=listed, min_lr=2e-4)


CASES = json.loads((Path(__file__).parents[2] / "data" / "newbob_cases.json").read_text())
assert len(CASES) == 57
CLASSES = {
    "constant": ConstantParams,
    "newbob_abs": NewbobAbsParams,
    "newbob_rel": NewbobRelParams,
    "newbob_multi_epoch": NewbobMultiEpochParams,
}
FIELDS = {
    "learning_rates": "rates",
    "min_learning_rate": "min_lr",
    "newbob_learning_rate_decay": "decay",
    "newbob_learning_rate_growth": "growth",
    "newbob_error_threshold": "threshold",
    "newbob_relative_error_threshold": "threshold",
    "newbob_relative_error_grow_threshold": "grow_threshold",
    "newbob_multi_num_epochs": "window_epochs",
    "newbob_multi_update_interval": "update_every_n_epochs",
    "learning_rate_control_min_num_epochs_per_new_lr": "hold_epochs",
    "learning_rate_control_relative_error_relative_lr": "relative_to_lr",
    "relative_error_div_by_old": "divide_by",
}


def params_of(case: dict[str, Any]) -> LearningRateParams:
    """The params of a case, without options that its control does not have."""
    cls = CLASSES[case["control"]]
    known = cls.__dataclass_fields__
    fields: dict[str, Any] = {"lr": case["initial_lr"], "monitor": "s"}
    for name, value in case["params"].items():
        fields[FIELDS[name]] = value
    if "divide_by" in fields:
        fields["divide_by"] = Divisor.OLD if fields["divide_by"] else Divisor.NEW
    if isinstance(fields.get("rates"), dict):
        fields["rates"] = {int(epoch): rate for epoch, rate in fields["rates"].items()}
    return cls(**{name: value for name, value in fields.items() if name in known})


@pytest.mark.parametrize("case", CASES, ids=[f"{case['control']}-{case['id']}" for case in CASES])
def test_case(case: dict[str, Any]) -> None:
    assert rates(params_of(case), *case["scores"]) == pytest.approx(case["expected"], rel=1e-12, abs=0)
