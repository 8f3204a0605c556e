"""Which epoch is the best."""

from __future__ import annotations

import pytest

from tfaip.errors import UsageError
from tfaip.trainer.best import BestModel
from tfaip.trainer.history import EpochRecord, History

LOGGED = ["loss", "acc", "loss/mean_epoch"]


def history(name: str, *values: float) -> History:
    return History({epoch: EpochRecord(0.1, {name: value}) for epoch, value in enumerate(values, 1)})


def test_the_validation_value_is_monitored_if_there_is_one() -> None:
    assert BestModel.of(("max", "acc"), True, LOGGED) == BestModel("max", "val_acc")
    assert BestModel.of(("min", "loss/mean_epoch"), False, LOGGED) == BestModel("min", "loss/mean_epoch")


def test_an_epoch_is_best_when_it_is_the_first_with_the_best_value() -> None:
    best = BestModel("max", "val_acc")
    values = [0.5, 0.7, 0.7, 0.9, float("nan"), 0.8]
    found = [best.is_best(history("val_acc", *values[:epoch]), epoch) for epoch in range(1, len(values) + 1)]
    assert found == [True, True, False, True, False, False]


def test_description_and_values() -> None:
    records = history("val_acc", 0.5, 0.98765, 0.9)
    assert BestModel("max", "val_acc").describe(records) == "val_acc 0.9877 in epoch 2"
    assert BestModel("min", "val_acc").describe(records) == "val_acc 0.5000 in epoch 1"
    assert BestModel("min", "val_acc").values(records) == {1: 0.5, 2: 0.98765, 3: 0.9}


def test_unknown_modes_and_names_are_listed() -> None:
    with pytest.raises(UsageError, match="gave the mode 'best', expected 'min' or 'max'"):
        BestModel.of(("best", "acc"), True, LOGGED)
    with pytest.raises(
        UsageError, match=r"follows 'val_acc' .*, which is not logged; did you mean acc\? Logged values: acc, loss"
    ):
        BestModel.of(("max", "val_acc"), True, LOGGED)


def test_a_near_name_comes_first_and_no_name_is_cut() -> None:
    logged = [f"lav_l0_{name}_last_step_of_the_horizon" for name in "abcdef"] + ["lav_l0_mae_degrees"]
    with pytest.raises(UsageError, match=r"not logged; did you mean lav_l0_mae_degrees\? Logged values: ") as raised:
        BestModel("min", "lav_l0_mae_degree").check(logged)
    names = str(raised.value).partition("Logged values: ")[2].split(", ")
    assert names == [*sorted(logged)[:4], "..."]
