"""The plan of a transfer, its table, names of weights, and variables of optimizers: no backend, no files."""

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.model.structure.axis import Dimension, Structure, WeightStructure
from tfaip.model.transfer import (
    Found,
    Outcome,
    Row,
    Source,
    Transfer,
    plan_transfer,
    slot_arrays,
    transfer_table,
)
from tfaip.model.weightrules import TransferMode, WeightRules, expected_substitution
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
    ]
    # The other way round; the table keeps the path of the target.
    mirrored = plan_transfer(TARGETS, [old], WarmStartParams(exclude="steps", rename_targets=["^a/->x/"]))
    assert mirrored.rows == transfer.rows
    both = WeightRules(include="a", exclude=".*bias")
    assert [path for path in TARGETS if both.selects(path)] == ["a/kernel"]


@pytest.mark.parametrize("name", ["include", "exclude"])
def test_a_pattern_that_matches_no_weight_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} 'c' matches no weight; .*the weights are a/"):
        plan_transfer(TARGETS, [source(a_kernel=(2, 3))], WeightRules(**{name: "c"}))
    with pytest.raises(UsageError, match="^blocks has no effect without mode subset$"):
        plan_transfer(TARGETS, [source(a_kernel=(2, 3))], WeightRules(blocks={"a": [1, 2]}))


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


def test_substitutions_act_one_after_the_other() -> None:
    rules = WeightRules(rename=["^model/->", "^enc/->encoder/", r"conv_(\d+)->conv/\1", "/w$->/kernel"])
    assert rules.renamed_source("model/enc/conv_12/w") == "encoder/conv/12/kernel"
    assert rules.renamed_source("head/kernel") == "head/kernel"
    # Targets are renamed before they get the suffix.
    rules = WarmStartParams(rename_targets=["^head->classifier"], add_suffix="/average")
    assert rules.wanted_name("head/kernel") == "classifier/kernel/average"


def test_what_is_no_substitution() -> None:
    form = "'old->new' with a regular expression old and a replacement new"
    for text in ("a", "->b", "(->a"):
        assert expected_substitution(text) == form
    assert expected_substitution(r"a->\1") == f"{form} (invalid group reference 1 at position 1)"
    assert expected_substitution(r"(a)->\1b") is None


def structure(rows: int, units: int) -> Structure:
    axes = Dimension("rows", rows), Dimension("units", units)
    return {"a/kernel": WeightStructure(axes, inputs=(0,)), "a/bias": WeightStructure(axes[1:])}


def planned() -> Transfer:
    """`a/kernel` grows from 1x2 to 2x3, `b` is equal, `c` is new; the old `d` has the name `b` now."""
    old = {"a/kernel": np.full((1, 2), 1.0), "a/bias": np.full(2, 2.0), "d": np.full(2, 3.0)}
    targets = {"a/kernel": (2, 3), "a/bias": (3,), "b": (2,), "c": (1,)}
    source = Source("old", old, structure=structure(1, 2))
    return plan_transfer(
        targets, [source], WeightRules(rename=["^d$->b"]), TransferMode.SUBSET, structure=structure(2, 3)
    )


def as_lists(arrays: dict[str, np.ndarray]) -> dict[str, object]:
    return {name: array.tolist() for name, array in arrays.items()}


OLD = {
    "momentum/a/kernel": np.array([[5.0, 6.0]]),
    "momentum/a/bias": np.array([7.0, 8.0]),
    "momentum/d": np.array([9.0, 9.5]),
    "average/a/kernel": np.array([[1.5, 1.5]]),
    "average/d": np.array([3.5, 3.5]),
    "iteration": np.array(12),
    "gradient_accumulator_size": np.array(3),
}
NEW = {
    "momentum/a/kernel": np.zeros((2, 3)),
    "momentum/a/bias": np.full(3, 0.1),
    "momentum/b": np.zeros(2),
    "momentum/c": np.zeros(1),
    "average/a/kernel": np.full((2, 3), -1.0),
    "average/a/bias": np.full(3, -1.0),
    "average/b": np.full(2, -1.0),
    "average/c": np.full(1, -1.0),
    "iteration": np.array(0),
    "loss_scale": np.array(32768.0),
}
WEIGHTS = {
    "a/kernel": np.array([[1.0, 1.0, 0.4], [0.4, 0.4, 0.4]]),
    "a/bias": np.array([2.0, 2.0, 0.4]),
    "b": np.array([3.0, 3.0]),
    "c": np.array([0.7]),
}


def test_slots_follow_their_weights() -> None:
    assert as_lists(slot_arrays(planned(), OLD, NEW, WEIGHTS)) == {
        "momentum/a/kernel": [[5.0, 6.0, 0.0], [0.0, 0.0, 0.0]],
        "momentum/a/bias": [7.0, 8.0, 0.1],  # new entries keep the initial value of the slot
        "momentum/b": [9.0, 9.5],
        "momentum/c": [0.0],
        # Averages of new entries, and of a weight that had none, are the weight itself.
        "average/a/kernel": [[1.5, 1.5, 0.4], [0.4, 0.4, 0.4]],
        "average/a/bias": [2.0, 2.0, 0.4],
        "average/b": [3.5, 3.5],
        "average/c": [0.7],
        "iteration": 12,
        "loss_scale": 32768.0,
    }


def test_moments_mean_nothing_to_another_rule() -> None:
    arrays = as_lists(slot_arrays(planned(), OLD, NEW, WEIGHTS, same_rule=False))
    assert arrays["momentum/b"] == [0.0, 0.0]
    assert (arrays["average/b"], arrays["iteration"]) == ([3.5, 3.5], 12)


def test_variables_without_a_weight_follow_only_if_all_slots_are_equal() -> None:
    targets = {"w": (2,)}
    transfer = plan_transfer(targets, [Source("old", {"w": np.ones(2)})], WeightRules())
    weights = {"w": np.ones(2)}
    old = {"m/w": np.full(2, 4.0), "part_0/0": np.array([6.0])}
    fresh = {"m/w": np.zeros(2), "part_0/0": np.array([0.0])}
    assert as_lists(slot_arrays(transfer, old, fresh, weights)) == {"m/w": [4.0, 4.0], "part_0/0": [6.0]}
    # A frozen weight had no slot.
    assert as_lists(slot_arrays(transfer, {}, fresh, weights)) == as_lists(fresh)
    wider = {**fresh, "m/x": np.zeros(3)}
    assert as_lists(slot_arrays(transfer, old, wider, {**weights, "x": np.ones(3)}))["part_0/0"] == [0.0]
