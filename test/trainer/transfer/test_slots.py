"""Variables of optimizers after a transfer."""

from __future__ import annotations

import numpy as np

from tfaip.model.structure.axis import Dimension, Structure, WeightStructure
from tfaip.trainer.transfer.params import TransferMode, WeightRules
from tfaip.trainer.transfer.plan import Source, Transfer, plan_transfer, slot_arrays


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
