"""Transfer of weights to other sizes: no backend, no files."""

from __future__ import annotations

import numpy as np

from tfaip.model.structure.axis import Dimension, Joined, Product, WeightStructure
from tfaip.trainer.transfer import NameRules, NewRows, Source, Transfer, TransferMode, plan_transfer
from tfaip.trainer.transfer.table import transfer_table


def recurrent(first: int, second: int, units: int, gates: int = 4) -> dict[str, WeightStructure]:
    """The weights of a layer with gates after the join of two layers, and of these."""
    a, b, u = Dimension("a", first), Dimension("b", second), Dimension("units", units)
    gated = Product((Dimension("gates", gates, is_fixed=True), u))
    rows = Joined((a, b))
    return {
        "a/bias": WeightStructure((a,)),
        "b/bias": WeightStructure((b,)),
        "rnn/kernel": WeightStructure((rows, gated), inputs=(0,)),
        "rnn/recurrent_kernel": WeightStructure((u, gated), others=(0,)),
        "rnn/bias": WeightStructure((gated,)),
    }


def shapes(structure: dict[str, WeightStructure]) -> dict[str, tuple[int, ...]]:
    return {path: tuple(axis.size for axis in weight.axes) for path, weight in structure.items()}


def numbered(structure: dict[str, WeightStructure], start: float) -> dict[str, np.ndarray]:
    """Arrays without two equal numbers."""
    arrays = {}
    for path, shape in shapes(structure).items():
        count = int(np.prod(shape))
        arrays[path] = np.arange(start, start + count, dtype="float32").reshape(shape)
        start += count
    return arrays


def plan(old: dict[str, WeightStructure], new: dict[str, WeightStructure], known: bool, **fields: object) -> Transfer:
    source = Source("old", numbered(old, 1), structure=old if known else {})
    return plan_transfer(
        shapes(new),
        [source],
        NameRules(),
        TransferMode.SUBSET,
        structure=new,
        **fields,  # type: ignore[arg-type]
    )


def test_a_kernel_of_four_gates_after_two_joined_layers() -> None:
    old, new = recurrent(3, 5, 5), recurrent(5, 7, 7)
    for known in (True, False):  # False: the old sizes follow from the shapes
        transfer = plan(old, new, known)
        before, initial = numbered(old, 1), numbered(new, -10000)
        values = transfer.arrays(initial)
        kernel, expected = values["rnn/kernel"], initial["rnn/kernel"].copy()
        assert (before["rnn/kernel"].shape, kernel.shape) == ((8, 20), (12, 28))
        for p in range(4):
            columns = slice(7 * p, 7 * p + 5)
            expected[0:3, columns] = before["rnn/kernel"][0:3, 5 * p : 5 * p + 5]
            expected[5:10, columns] = before["rnn/kernel"][3:8, 5 * p : 5 * p + 5]
        np.testing.assert_array_equal(kernel, expected)
        assert (kernel > 0).sum() == 8 * 20
        assert transfer_table(transfer) == [
            "weight                shape",
            "a/bias                5      loaded in part [3] -> [5]",
            "b/bias                7      loaded in part [5] -> [7]",
            "rnn/kernel            12x28  loaded in part [3+5, 4*5] -> [5+7, 4*7]",
            "rnn/recurrent_kernel  7x28   loaded in part [5, 4*5] -> [7, 4*7]",
            "rnn/bias              28     loaded in part [4*5] -> [4*7]",
        ]


def test_new_rows_are_zero_on_request() -> None:
    old, new = recurrent(3, 5, 5), recurrent(5, 7, 7)
    initial = numbered(new, -10000)
    values = plan(old, new, True, new_rows=NewRows.ZERO).arrays(initial)
    assert sorted(np.flatnonzero((values["rnn/kernel"] == 0).all(axis=1))) == [3, 4, 10, 11]
    assert sorted(np.flatnonzero((values["rnn/recurrent_kernel"] == 0).all(axis=1))) == [5, 6]
    # New columns of old rows keep their initial values.
    np.testing.assert_array_equal(values["rnn/kernel"][:3, 5:7], initial["rnn/kernel"][:3, 5:7])
    assert (values["rnn/bias"] != 0).all()
