"""The history of epochs: the best one, and the way to JSON and back."""

import math
from pathlib import Path

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.trainer.history import (
    EpochRecord,
    History,
    absolute_difference,
    read_history,
    relative_difference,
)

NAN, INF = math.nan, math.inf


def scores(*values: float | None) -> History:
    """Epochs from 1 with the value `s`; None: an epoch without it."""
    return History({e: EpochRecord(0.1, {} if s is None else {"s": s}) for e, s in enumerate(values, 1)})


def test_best_epoch() -> None:
    for values, lowest, highest in [
        ((3.0, 1.0, 2.0), 2, 1),
        ((2.0, 1.0, 1.0, 2.0), 2, 1),  # the first of equals
        ((NAN, 2.0, NAN, 1.0), 4, 2),
        ((-INF, INF, 5.0), 3, 3),
        ((None, 4.0, None, -3.0), 4, 2),
        ((NAN, INF), None, None),
        ((), None, None),
    ]:
        history = scores(*values)
        assert (history.best_epoch("s", "min"), history.best_epoch("s", "max")) == (lowest, highest)
        assert history.best_epoch("other", "min") is None


def test_json_round_trip() -> None:
    history = History({10: EpochRecord(0.1, {"loss": 0.1 + 0.2, "bad": NAN}, {"updates": 30}), 9: EpochRecord(1e-30)})
    again = History.parse(history.text())
    assert again.text() == history.text()
    assert again.epochs == [9, 10]  # numbers, not text: 10 stands behind 9
    assert (again[10].values["loss"], again[10].meta) == (0.30000000000000004, {"updates": 30})
    # A line for each epoch.
    history = History({2: EpochRecord(0.5, {"loss": NAN}, {"stage": "main"}, 0.25)})
    assert history.text() == (
        '{\n"2": {"lr": 0.5, "effective_lr": 0.25, "values": {"loss": NaN}, "meta": {"stage": "main"}}\n}'
    )
    assert History().text() == "{}"


def test_the_panels_of_a_plot() -> None:
    """Values of one kind share a panel, `loss/mean_epoch` has none; what is not finite is left out."""
    first = {"loss/mean_epoch": 3.0, "loss": 3.0, "val_loss": NAN, "acc": 0.5, "lav_l0_acc": 0.25, "lav_l0_cer": 0.5}
    history = History({1: EpochRecord(None, first), 2: EpochRecord(0.5, {"loss": 2.0, "val_loss": 4.0})})

    def drawn(*names: str) -> list[dict[str, list[tuple[float, float]]]]:
        axes = history.plot(*names).axes
        lines = [{line.get_label(): line.get_xydata() for line in axis.lines} for axis in axes]
        return [{name: [tuple(point) for point in points] for name, points in panel.items()} for panel in lines]

    loss = {"loss": [(1, 3.0), (2, 2.0)], "val_loss": [(2, 4.0)]}
    acc, cer, rate = {"acc": [(1, 0.5)], "lav_l0_acc": [(1, 0.25)]}, {"lav_l0_cer": [(1, 0.5)]}, {"lr": [(2, 0.5)]}
    assert drawn() == [loss, acc, cer, rate]
    assert drawn("acc", "loss") == [acc, loss]
    with pytest.raises(UsageError, match="plot: there is no panel 'mae', expected some of: loss, acc, cer, lr"):
        history.plot("mae")


def test_a_file_that_is_no_history_is_one_short_line(tmp_path: Path) -> None:
    file = tmp_path / "history.json"
    for text, reason in [
        ("[]", "expected a JSON object, got list"),
        ('{"one": {"lr": 0.1}}', "'one'"),
        ('{"0": {"lr": 0.1}}', "epochs count from 1"),
        ('{"1": {"lr": "0.1"}}', "'lr' is '0.1', expected a number"),
        ('{"1": {"lr": -0.1}}', "epoch '1': lr is -0.1, expected a finite rate from 0"),
        ('{"1": {"lr": 1%s}}' % ("0" * 400), "int too large to convert to float"),
        ('{"1": {"values": {"%s": null}}}' % ("s" * 10_000), "is None, expected a number"),
        ('{"1": {}, "1": {}}', "key '1' is given twice"),
        ('{"1": {"meta": %s}}' % ("[" * 500 + "]" * 500), "nested too deeply"),
    ]:
        file.write_text(text)
        with pytest.raises(UsageError, match=reason) as caught:
            read_history(file)
        message = str(caught.value).replace(str(tmp_path), "")
        assert "\n" not in message
        assert len(message) <= 300
    # A path may be a text.
    file.write_text('{"1": {"lr": 0.5}}')
    assert read_history(str(file)) == read_history(file) == History({1: EpochRecord(0.5)})
    with pytest.raises(UsageError, match="missing.json: cannot be read"):
        read_history(str(tmp_path / "missing.json"))


def test_values_arrive_in_parts() -> None:
    history = History()
    assert history.set_default_rate(2, 0.5) == 0.5
    assert history.set_default_rate(2, 0.25) == 0.5
    history.set_values(2, {"loss": 1.0})
    assert '"loss": 1.0' in history.text()
    history.set_values(2, {"val_loss": 2.0, "loss": 3.0})
    history.set_values(1, {"loss": 4.0})
    assert history == History(
        {1: EpochRecord(None, {"loss": 4.0}), 2: EpochRecord(0.5, {"loss": 3.0, "val_loss": 2.0})}
    )
    assert (history.names(), '"loss": 3.0' in history.text()) == (["loss", "val_loss"], True)
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
    assert (history.relative_error(1, 2, "s"), history.relative_error(2, 4, "s", "max")) == (-1.0, -0.75)
    assert history.relative_error(1, 2, "s", divide_by_old=True) == -0.5
    assert history.relative_error(1, 3, "s") is history.relative_error(1, 2, "other") is None
    last = [history.last_evaluated("s", number, before=before) for number, before in ((2, 5), (2, 4), (10**30, 9))]
    assert [*last, history.last_evaluated("other", 2, before=5)] == [[2, 4], [1, 2], [1, 2, 4], []]


def test_best_epoch_among_some() -> None:
    # Epochs 1 to 7; epoch 4 is not finite, 7 was not evaluated.
    history = scores(5.0, 4.0, 1.0, INF, 3.5, 3.0, None)
    mirrored = History({e: EpochRecord(0.1, {n: -v for n, v in history.values(e).items()}) for e in history.epochs})
    for filters, expected in [
        *(({}, 3), ({"first": 4}, 6), ({"last": 2}, 2), ({"first": 3, "last": 2}, None)),
        # Epochs 6 and 7, of which 7 has no score.
        *(({"only_last_epochs": 2}, 6), ({"only_last_epochs": 1}, None)),
        *(({"only_last_n": 2}, 6), ({"only_last_n": 4}, 3)),
        # 3 and 6 remain.
        *(({"worst_value": 2.0}, 3), ({"worst_value": 0.5}, None), ({"worst_value": 3.0, "only_last_n": 2}, 3)),
        *(({"min_distance": 2.0}, 3), ({"min_distance": 2.5}, None)),
        # The distance is to the last score, 3.0, which is too bad to be the best.
        *(({"min_distance": 1.5, "worst_value": 2.0}, 3), ({"min_distance": 2.5, "worst_value": 2.0}, None)),
        # From a score that is not finite.
        *(({"min_distance": 1.5, "only_last_n": 4}, 3), ({"min_distance": 9.0, "last": 4}, 3)),
    ]:
        assert history.best_epoch("s", "min", **filters) == expected, filters
        flipped = {name: -value if name == "worst_value" else value for name, value in filters.items()}
        assert mirrored.best_epoch("s", "max", **flipped) == expected, filters


def test_a_worst_value_is_reached_exactly_in_float32() -> None:
    logged = float(np.float32(0.1))  # 0.10000000149
    assert scores(logged).best_epoch("s", "min", worst_value=0.1) == 1
    assert scores(logged, 0.05).best_epoch("s", "max", worst_value=0.1) == 1


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
    # Epochs that held the rate are not those of a control.
    held = History({1: EpochRecord(1.0), 3: EpochRecord(1.0)})
    held.record(2, EpochRecord(0.5, {"loss": 1.0}, {"rate_control": False}))
    assert held.controlled().epochs == History.parse(held.text()).controlled().epochs == [1, 3]
    assert held.of_epochs(2, 3).epochs == [2, 3]
    assert file.rates_only() == History({1: EpochRecord(0.5), 3: EpochRecord(0.5), 7: EpochRecord(0.125)})


def test_name_and_value_in_one_call() -> None:
    history = History({1: EpochRecord(0.1, {"val_loss": 2.0, "loss": 3.0})})
    assert history.error_key(1, "loss") == "loss"
    assert history.error_key(1, ["lav_l0_cer", "val_loss", "loss"]) == "val_loss"
    assert history.error(1, ["lav_l0_cer", "val_loss", "loss"]) == ("val_loss", 2.0)
    assert (history.error_key(1, "cer"), history.error(1, []), history.error(2, "loss")) == (None, None, None)


def test_columns() -> None:
    history = History({2: EpochRecord(0.5, {"loss": 1.0}), 1: EpochRecord(None, {"loss": 3.0, "acc": 0.25})})
    history.record(3, EpochRecord(0.125))
    table = history.columns()
    assert list(table) == ["epoch", "lr", "acc", "loss"]
    assert table["epoch"] == [1, 2, 3]
    np.testing.assert_array_equal(table["lr"], [NAN, 0.5, 0.125])
    np.testing.assert_array_equal(table["acc"], [0.25, NAN, NAN])
    np.testing.assert_array_equal(table["loss"], [3.0, 1.0, NAN])
    assert History().columns() == {"epoch": [], "lr": []}


def test_differences() -> None:
    for old, new, absolute, relative, by_old in [
        (2.0, 1.0, -1.0, -1.0, -0.5),
        (0.0, 0.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 1.0, INF),
        (1.0, 0.0, -1.0, -INF, -1.0),
        (1.0, NAN, INF, INF, INF),
        (INF, 1.0, -INF, -INF, -INF),
        (NAN, INF, INF, INF, INF),
    ]:
        found = absolute_difference(old, new), relative_difference(old, new)
        assert (*found, relative_difference(old, new, divide_by_old=True)) == (absolute, relative, by_old)
    # High scores may be good.
    assert (absolute_difference(2.0, 1.0, "max"), relative_difference(1.0, 2.0, "max")) == (1.0, -0.5)
    assert absolute_difference(1.0, NAN, "max") == INF
