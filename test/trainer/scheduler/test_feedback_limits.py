"""Impossible params of the feedback controls, and properties of the rates that hold for all possible ones."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from test.trainer.scheduler.test_feedback import rates
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler import (
    FEEDBACK,
    ConstantParams,
    Decision,
    FeedbackParams,
    LearningRateParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
    PolynomialDecayParams,
    ReduceOnPlateauParams,
)


@pytest.mark.parametrize(
    ("cls", "fields", "message"),
    [
        (NewbobRelParams, {"decay": 0.0}, "decay is 0.0"),
        (NewbobRelParams, {"growth": 0.9}, "growth is 0.9"),
        (NewbobRelParams, {"decay": "half"}, "decay is 'half', expected a number or module:function$"),
        (NewbobRelParams, {"hold_epochs": -1}, "hold_epochs is -1, expected at least 0"),
        (NewbobRelParams, {"min_lr": 0.1}, r"min_lr is 0.1, expected at most lr \(0.001\)$"),
        (NewbobRelParams, {"rates": {8: 0.1}, "epochs": 7}, "expected epochs from 1 to 7, the last .*; one is 8$"),
        (NewbobRelParams, {"rates": [0.1, -0.1]}, r"rates\[1\] is -0.1, expected at least 0"),
        (NewbobRelParams, {"step_function": False}, "step_function is False, expected True, as NewbobRelParams"),
        (NewbobMultiEpochParams, {"grow_threshold": 0.0}, "grow_threshold is 0.0, expected at most threshold"),
        (ReduceOnPlateauParams, {"patience_epochs": 0}, "patience_epochs is 0"),
    ],
)
def test_impossible_values_name_the_field(cls: type[LearningRateParams], fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**fields)


@st.composite
def controls(draw: st.DrawFn) -> FeedbackParams:
    cls = draw(st.sampled_from(FEEDBACK))
    lr = draw(st.floats(1e-4, 1.0))
    threshold = draw(st.floats(-0.5, 0.5))
    fields: dict[str, Any] = {}
    if cls is NewbobMultiEpochParams:
        fields = {
            "window_epochs": draw(st.integers(1, 4)),
            "update_every_n_epochs": draw(st.none() | st.integers(1, 4)),
            "grow_threshold": threshold - draw(st.floats(0, 0.5)),
        }
    return cls(
        lr=lr,
        monitor="s",
        min_lr=lr * draw(st.floats(0, 1)),
        max_lr=lr * draw(st.floats(1, 10)),
        threshold=threshold,
        decay=draw(st.floats(0.01, 1.0)),
        growth=draw(st.floats(1.0, 5.0)),
        hold_epochs=draw(st.integers(0, 4)),
        **fields,
    )


SCORES = st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=15)


@given(params=controls(), scores=SCORES)
def test_rates_stay_in_their_bounds_and_decays_never_raise(params: FeedbackParams, scores: list[float | None]) -> None:
    history = History()
    for epoch, score in enumerate([*scores, None], start=1):
        decision, before = params.decision(epoch, history), history.most_recent_rate(epoch)
        rate = params.rate(epoch, history)
        assert params.min_lr <= rate <= params.max_lr
        if decision is Decision.DECAY:
            assert rate <= before
        elif decision is Decision.GROW:
            assert rate >= before
        elif before is not None:
            assert rate == before
        history.record(epoch, EpochRecord(rate, {} if score is None else {"s": score}))


@given(params=controls(), scores=SCORES)
def test_a_resume_at_any_epoch_gives_the_same_rates(params: FeedbackParams, scores: list[float | None]) -> None:
    whole = rates(params, *scores)
    for start in range(len(scores) + 1):
        known = {e: EpochRecord(whole[e - 1], {} if s is None else {"s": s}) for e, s in enumerate(scores[:start], 1)}
        history = History.from_dict(History(known).to_dict())
        again = FeedbackParams.from_json(params.to_json())
        for epoch in range(start + 1, len(scores) + 1):
            score = scores[epoch - 1]
            values = {} if score is None else {"s": score}
            history.record(epoch, EpochRecord(again.rate(epoch, history), values))
        assert [history[epoch].lr for epoch in history.epochs] == whole[:-1]
        assert again.rate(len(scores) + 1, history) == whole[-1]


def test_listed_rates_know_no_bounds_also_if_lr_is_one_of_them() -> None:
    for cls in (ConstantParams, NewbobRelParams):
        params = cls(lr=1e-5, rates=[1e-5, 1e-4, 1e-3], min_lr=2e-4)
        history = History()
        rates = [history.set_default_rate(epoch, params.rate(epoch, history)) for epoch in range(1, 6)]
        assert rates == [1e-5, 1e-4, 1e-3, 1e-3, 1e-3]
        # Without a listed rate of epoch 1 `lr` is its rate.
        for listed in ([], {2: 1e-4}):
            with pytest.raises(ValueError, match=r"min_lr is 0.0002, expected at most lr \(1e-05\)"):
                cls(lr=1e-5, rates=listed, min_lr=2e-4)
    with pytest.raises(ValueError, match=r"min_lr is 0.0002, expected at most lr \(1e-05\)"):
        PolynomialDecayParams(lr=1e-5, rates=[1e-5], min_lr=2e-4)
