"""The plan of a transfer, and its table: no backend, no files."""

from __future__ import annotations

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.trainer.transfer.params import TransferMode, WeightRules
from tfaip.trainer.transfer.plan import Found, Outcome, Row, Source, plan_transfer, transfer_table
from tfaip.trainer.warmstart import WarmStartParams

TARGETS = {"a/kernel": (2, 3), "a/bias": (3,), "b/kernel": (3, 1), "steps": ()}


def source(description: str = "old", aliases: dict[str, str] | None = None, **shapes: tuple[int, ...]) -> Source:
    arrays = {name.replace("_", "/"): np.full(shape, i) for i, (name, shape) in enumerate(shapes.items())}
    return Source(description, arrays, aliases or {})


def test_equal_names_and_shapes_are_loaded() -> None:
    old = source(a_kernel=(2, 3), a_bias=(4,), c_kernel=(3, 1), steps=())
    transfer = plan_transfer(TARGETS, [old], WeightRules())
    assert transfer.rows == [
        Row("a/kernel", (2, 3), Outcome.LOADED, Found(0, "a/kernel", (2, 3))),
        Row("a/bias", (3,), Outcome.SHAPE_DIFFERS, Found(0, "a/bias", (4,))),
        Row("b/kernel", (3, 1), Outcome.NOT_FOUND),
        Row("steps", (), Outcome.LOADED, Found(0, "steps", ())),
    ]
    assert transfer.arrays() == {"a/kernel": pytest.approx(np.zeros((2, 3))), "steps": 3}
    assert transfer_table(transfer) == [
        "weight    shape",
        "a/kernel  2x3    loaded",
        "a/bias    3      skipped: shape differs (source: 4)",
        "b/kernel  3x1    left fresh: not in the source",
        "steps     ()     loaded",
        "not used of old: c/kernel",
    ]


def test_rules_decide_on_paths_of_the_target_and_names_of_the_source() -> None:
    old = source(x_kernel=(2, 3), x_bias=(3,), b_kernel=(3, 1), steps=())
    transfer = plan_transfer(TARGETS, [old], WeightRules(exclude="steps", rename=["^x/->a/"]))
    assert transfer_table(transfer) == [
        "weight    shape",
        "a/kernel  2x3    loaded from x/kernel",
        "a/bias    3      loaded from x/bias",
        "b/kernel  3x1    loaded",
        "steps     ()     skipped: excluded",
        "not used of old: steps",
    ]
    # The other way round; the table keeps the path of the target.
    mirrored = plan_transfer(TARGETS, [old], WarmStartParams(exclude="steps", rename_targets=["^a/->x/"]))
    assert mirrored.rows == transfer.rows


def test_the_first_source_with_the_name_and_the_shape_wins() -> None:
    first = source("first", a_kernel=(2, 3), b_kernel=(9, 9))
    second = source("second", b_kernel=(3, 1), a_kernel=(2, 3), a_bias=(7,))
    transfer = plan_transfer(TARGETS, [first, second], WeightRules())
    assert transfer_table(transfer) == [
        "weight    shape",
        "a/kernel  2x3    loaded from first: a/kernel",
        "a/bias    3      skipped: shape differs (source: 7) from second: a/bias",
        "b/kernel  3x1    loaded from second: b/kernel",
        "steps     ()     left fresh: not in the source",
        "not used of first: b/kernel",
        "not used of second: a/kernel",
    ]


def test_other_axes_do_not_fit_and_nothing_is_copied_on_request() -> None:
    old = [Source("old", {"a": np.ones((2, 3))})]
    transfer = plan_transfer({"a": (6,)}, old, WeightRules(), TransferMode.SUBSET)
    assert transfer_table(transfer)[1] == "a       6      skipped: shape differs (source: 2x3)"
    transfer = plan_transfer({"a": (2, 3)}, old, WeightRules(), TransferMode.NONE)
    assert (transfer.rows[0].outcome, transfer.arrays()) == (Outcome.NOT_WANTED, {})


def test_names_come_before_aliases() -> None:
    old = source(a_kernel=(2, 3), graph_a_kernel=(2, 3), graph_steps=(), aliases={"a/kernel": "graph/a/kernel"})
    aliased = Source(old.description, old.arrays, {**old.aliases, "steps": "graph/steps"})
    transfer = plan_transfer(TARGETS, [aliased], WeightRules())
    found = [row.found for row in transfer.rows]
    assert found == [(0, "a/kernel", (2, 3)), None, None, (0, "graph/steps", ())]
    # Aliases are renamed as names are.
    renamed = plan_transfer({"count": ()}, [aliased], WeightRules(rename=["^steps->count"]))
    assert renamed.rows == [Row("count", (), Outcome.LOADED, Found(0, "graph/steps", ()))]


def test_renaming_must_not_merge_names() -> None:
    old = source(x_kernel=(2, 3), y_kernel=(2, 3))
    with pytest.raises(UsageError, match="^old: after renaming, both 'x/kernel' and 'y/kernel' are called 'a/kernel'"):
        plan_transfer(TARGETS, [old], WeightRules(rename=["[xy]->a"]))


def test_one_array_may_go_to_several_targets() -> None:
    transfer = plan_transfer(
        {"a/kernel": (2, 3), "b/kernel": (2, 3)}, [source(a_kernel=(2, 3))], WarmStartParams(rename_targets=["^b->a"])
    )
    assert sorted(transfer.arrays()) == ["a/kernel", "b/kernel"]
    assert "not used" not in transfer_table(transfer)[-1]
    old = source(**{f"x{i}": (1,) for i in range(7)})
    unused = transfer_table(plan_transfer({"a": (1,)}, [old], WeightRules()))[-1]
    assert unused == "not used of old: x0, x1, x2, x3, x4 and 2 more"
