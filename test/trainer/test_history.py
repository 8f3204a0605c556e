"""The history of epochs: the best one, and the way to JSON and back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.history import EpochRecord, History, read_history

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
    ("data", "reason"),
    [
        ([], "'list' object has no attribute 'items'"),
        (None, "no attribute 'items'"),
        ({"one": {"lr": 0.1}}, "'one'"),
        ({"0": {"lr": 0.1}}, "epochs count from 1"),
        ({"1": {"rate": 0.1}}, "unknown rate"),
        ({"1": {"lr": "0.1"}}, "'0.1' is no number"),
        ({"1": {"lr": True}}, "True is no number"),
        ({"1": {"lr": -0.1}}, "learning rate -0.1"),
        ({"1": {"lr": NAN}}, "learning rate nan"),
        ({"1": {"lr": 0.1, "values": {"loss": "low"}}}, "'low' is no number"),
        ({"1": [0.1, {}, {}]}, "unknown|unhashable"),
        ({"1": {"lr": 0.1, "values": 3}}, "'int' object"),
        ({"1": None}, "'NoneType' object"),
    ],
)
def test_what_is_no_history_is_refused(data: Any, reason: str) -> None:
    with pytest.raises(TfaipError, match=rf"not a history .expected epoch -> lr, effective_lr.*: .*({reason})"):
        History.from_dict(data)


def test_a_file_may_hold_less(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    file.write_text('{"3": {"lr": 1}, "2": {"values": {"loss": 2}}}')
    history = read_history(file)
    assert history.epochs == [2, 3]
    assert (history[2].lr, history[3].lr, history.values(2), history.values(3)) == (None, 1.0, {"loss": 2.0}, {})
    file.write_text("{")
    with pytest.raises(UsageError, match="history.json: Expecting property name"):
        read_history(file)
    with pytest.raises(UsageError, match="gone.json cannot be read: No such file"):
        read_history(tmp_path / "gone.json")


def test_values_arrive_in_parts() -> None:
    history = History()
    assert history.set_default_rate(2, 0.5) == 0.5
    assert history.set_default_rate(2, 0.25) == 0.5
    history.set_values(2, {"loss": 1.0})
    history.set_values(2, {"val_loss": 2.0, "loss": 3.0})
    history.set_values(1, {"loss": 4.0})
    assert history == History(
        {1: EpochRecord(None, {"loss": 4.0}), 2: EpochRecord(0.5, {"loss": 3.0, "val_loss": 2.0})}
    )
    assert history.names() == ["loss", "val_loss"]
    assert (history.scores("loss"), history.scores("loss", before=2)) == ({1: 4.0, 2: 3.0}, {1: 4.0})
    history.values(2)["loss"] = 9.0
    assert history.value(2, "loss") == 3.0


def test_last_epoch_and_most_recent_rate() -> None:
    history = History({2: EpochRecord(0.5), 3: EpochRecord(None, {"s": 1.0}), 6: EpochRecord(0.25)})
    assert [history.last_epoch(before) for before in (2, 3, 4, 6, 7, 99)] == [None, 2, 3, 3, 6, 6]
    assert [history.most_recent_rate(epoch) for epoch in (2, 3, 6, 7)] == [None, 0.5, 0.5, 0.25]
    assert [history.most_recent_rate(e, exclude_current=False) for e in (1, 2, 3, 6)] == [None, 0.5, 0.5, 0.25]


def test_errors_between_epochs() -> None:
    history = scores(2.0, 1.0, None, 4.0)
    assert (history.absolute_error(1, 2, "s"), history.absolute_error(1, 2, "s", "max")) == (-1.0, 1.0)
    assert (history.relative_error(1, 2, "s"), history.relative_error(2, 4, "s", "max")) == (-1.0, -0.75)
    assert history.relative_error(1, 2, "s", divide_by_old=True) == -0.5
    assert history.relative_error(1, 3, "s") is None
    assert history.relative_error(1, 2, "other") is None


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({}, 3),
        ({"first": 4}, 6),
        ({"last": 2}, 2),
        ({"first": 3, "last": 2}, None),
        ({"only_last_epochs": 2}, 6),  # epochs 6 and 7, of which 7 has no score
        ({"only_last_epochs": 1}, None),
        ({"only_last_n": 2}, 6),
        ({"only_last_n": 4}, 3),
        ({"worst_value": 2.0}, 3),
        ({"worst_value": 0.5}, None),
        ({"worst_value": 3.0, "only_last_n": 2}, 3),  # 3 and 6 remain
        ({"min_distance": 2.0}, 3),
        ({"min_distance": 2.5}, None),
        ({"min_distance": 0.5, "first": 4, "last": 6}, None),
    ],
)
def test_best_epoch_among_some(filters: dict[str, Any], expected: int | None) -> None:
    # Epochs 1 to 7; epoch 4 is not finite, 7 was not evaluated.
    history = scores(5.0, 4.0, 1.0, INF, 3.5, 3.0, None)
    assert history.best_epoch("s", "min", **filters) == expected
    mirrored = History({e: EpochRecord(0.1, {n: -v for n, v in history.values(e).items()}) for e in history.epochs})
    flipped = {name: -value if name == "worst_value" else value for name, value in filters.items()}
    assert mirrored.best_epoch("s", "max", **flipped) == expected


def test_an_edited_history_goes_on() -> None:
    run = History({e: EpochRecord(1.0, {"s": 1.0}, {"updates": e}) for e in range(1, 5)})
    file = History({e: EpochRecord(0.5, {"s": 2.0}, {"updates": e}) for e in (1, 3)})
    file.record(7, EpochRecord(0.125))
    # What the file has counts; it ends with epoch 3, so that the checkpoint knows more of epoch 4.
    edited = run.edited(file, epoch=4)
    assert edited.epochs == [1, 3, 4, 7]
    assert [edited[e].lr for e in edited.epochs] == [0.5, 0.5, 1.0, 0.125]
    # Epochs behind the checkpoint are dropped, chosen rates are not.
    assert run.edited(file, epoch=1).epochs == [1, 7]
    assert run.edited(History(), epoch=2).epochs == [1, 2]
    assert file.rates_only() == History({1: EpochRecord(0.5), 3: EpochRecord(0.5), 7: EpochRecord(0.125)})


def test_a_path_may_be_a_string(tmp_path: Path) -> None:
    (tmp_path / "history.json").write_text('{"1": {"lr": 0.5}}')
    assert read_history(str(tmp_path / "history.json")) == read_history(tmp_path / "history.json")
    with pytest.raises(UsageError, match="missing.json cannot be read"):
        read_history(str(tmp_path / "missing.json"))
