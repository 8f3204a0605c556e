"""The history of epochs: the best one, and the way to JSON and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfaip.errors import TfaipError
from tfaip.trainer.history import EpochRecord, History

NAN, INF = float("nan"), float("inf")


def scores(*values: float | None) -> History:
    """Epochs from 1 with the value `s`; None: an epoch without it."""
    return History({e: EpochRecord(0.1, {} if s is None else {"s": s}) for e, s in enumerate(values, 1)})


@pytest.mark.parametrize(
    ("values", "lowest", "highest"),
    [
        ((3.0, 1.0, 2.0), 2, 1),
        ((2.0, 1.0, 1.0, 2.0), 2, 1),  # the first of equals
        ((NAN, 2.0, NAN, 1.0), 4, 2),
        ((-INF, INF, 5.0), 3, 3),
        ((None, 4.0, None, 3.0), 4, 2),
        ((-1.0, 0.0, -2.0), 3, 2),
        ((NAN, INF), None, None),
        ((None,), None, None),
        ((), None, None),
    ],
)
def test_best_epoch(values: tuple[float | None, ...], lowest: int | None, highest: int | None) -> None:
    history = scores(*values)
    assert history.best_epoch("s", "min") == lowest
    assert history.best_epoch("s", "max") == highest
    assert history.best_epoch("other", "min") is None


def test_records_by_epoch() -> None:
    history = History()
    history.record(2, EpochRecord(0.5, {"loss": 2.0}))
    history.record(1, EpochRecord(1.0, {"loss": 3.0}))
    assert (len(history), history.epochs) == (2, [1, 2])
    assert history[2].lr == 0.5
    assert (history.value(1, "loss"), history.value(1, "acc"), history.value(3, "loss")) == (3.0, None, None)
    history.record(2, EpochRecord(0.25, {"loss": 1.0}))
    assert (len(history), history.value(2, "loss"), history.best_epoch("loss", "min")) == (2, 1.0, 2)


def test_json_round_trip() -> None:
    history = History({10: EpochRecord(0.1, {"loss": 0.1 + 0.2, "bad": NAN}, {"updates": 30}), 9: EpochRecord(1e-30)})
    text = json.dumps(history.to_dict())
    again = History.from_dict(json.loads(text))
    assert json.dumps(again.to_dict()) == text
    assert again.epochs == [9, 10]  # numbers, not text: 10 stands behind 9
    assert again[10].values["loss"] == 0.30000000000000004
    assert again[10].meta == {"updates": 30}


def test_equality() -> None:
    assert scores(1.0, 2.0) == scores(1.0, 2.0)
    assert scores(1.0, 2.0) != scores(1.0)
    assert History() == History.from_dict({})
    assert History() != {}


@pytest.mark.parametrize(
    "data",
    [
        [],
        None,
        {"one": {"lr": 0.1, "values": {}, "meta": {}}},
        {"1": {"lr": 0.1, "values": {}}},
        {"1": {"values": {}, "meta": {}}},
        {"1": [0.1, {}, {}]},
        {"1": {"lr": 0.1, "values": 3, "meta": {}}},
        {"1": None},
    ],
)
def test_what_is_no_history_is_refused(data: Any) -> None:
    with pytest.raises(TfaipError, match="not a history .expected epoch -> lr, values, meta.: "):
        History.from_dict(data)
