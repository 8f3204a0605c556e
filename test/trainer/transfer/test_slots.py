"""Variables of optimizers after a transfer."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.model.structure.axis import Dimension, Structure, WeightStructure
from tfaip.model.weights import variable_arrays
from tfaip.trainer.optimizer import AdafactorOptimizer, AdamOptimizer
from tfaip.trainer.optimizer.optimizers import OptimizerParams
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer, build_optimizer
from tfaip.trainer.optimizer.update import AverageRate
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
    wider = {**fresh, "m/x": np.zeros(3)}
    assert as_lists(slot_arrays(transfer, old, wider, {**weights, "x": np.ones(3)}))["part_0/0"] == [0.0]


def test_a_frozen_weight_had_no_slot() -> None:
    transfer = plan_transfer({"w": (2,)}, [Source("old", {"w": np.ones(2)})], WeightRules())
    assert as_lists(slot_arrays(transfer, {}, {"m/w": np.zeros(2)}, {"w": np.ones(2)})) == {"m/w": [0.0, 0.0]}
    assert slot_arrays(transfer, {"m/w": np.ones(2)}, {}, {"w": np.ones(2)}) == {}


def real_optimizer(params: OptimizerParams, shape: tuple[int, int]) -> tuple[TrainingOptimizer, dict[str, np.ndarray]]:
    """An optimizer of `a/kernel` and `b`, and the names of its variables with their values."""
    weights = {
        "a/kernel": keras.Variable(np.full(shape, 0.4, np.float32)),
        "b": keras.Variable(np.full(2, 0.5, np.float32)),
    }
    rate = AverageRate(0.5, ramp=False)
    optimizer = build_optimizer(params, weights, list(weights.values()), accum_steps=2, average_rate=rate)
    named = optimizer.named_variables(weights)
    for i, variable in enumerate(named.values()):
        if shape == (1, 2):  # of the old one
            variable.assign(ops.cast(ops.ones(variable.shape) * (i + 1), variable.dtype))
    return optimizer, variable_arrays(named)


def real_slots(params: OptimizerParams, new_shape: tuple[int, int]) -> tuple[dict[str, np.ndarray], ...]:
    old = {"a/kernel": np.full((1, 2), 1.0, np.float32), "b": np.full(2, 3.0, np.float32)}
    source = Source("old", old, structure=structure(1, 2))
    targets = {"a/kernel": new_shape, "b": (2,)}
    transfer = plan_transfer(
        targets, [source], WeightRules(), TransferMode.SUBSET, structure=structure(new_shape[0], new_shape[1])
    )
    initial = {"a/kernel": np.full(new_shape, 0.4, np.float32), "b": np.full(2, 0.5, np.float32)}
    weights = {**initial, **transfer.arrays(initial)}
    _, before = real_optimizer(params, (1, 2))
    _, fresh = real_optimizer(params, new_shape)
    return before, fresh, slot_arrays(transfer, before, fresh, weights)


@pytest.mark.backend
def test_the_variables_of_adam() -> None:
    before, fresh, after = real_slots(AdamOptimizer(), (2, 3))
    kinds = {name.partition("/")[0] for name in fresh if "/" in name}
    assert kinds == {"momentum", "velocity", "gradient_accumulator", "average"}
    for name, value in after.items():
        assert (value.shape, value.dtype) == (fresh[name].shape, fresh[name].dtype)
        if not name.endswith("a/kernel"):
            assert value.tolist() == before[name].tolist()
            continue
        expected = np.full((2, 3), 0.4 if name.startswith("average") else 0.0, np.float32)
        expected[:1, :2] = before[name]
        np.testing.assert_array_equal(value, expected)
    assert {"iteration", "updates_before_moments", "gradient_accumulator_size"} <= set(after)


@pytest.mark.backend
def test_the_variables_of_adafactor_begin_again_if_a_weight_has_grown() -> None:
    before, fresh, after = real_slots(AdafactorOptimizer(), (2, 3))
    unnamed = [name for name in fresh if name.startswith("part_")]
    assert unnamed
    assert all(np.array_equal(after[name], fresh[name]) for name in unnamed)
    before, _, after = real_slots(AdafactorOptimizer(), (1, 2))
    assert all(np.array_equal(after[name], before[name]) for name in unnamed)
