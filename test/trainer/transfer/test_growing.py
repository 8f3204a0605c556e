"""Transfer of weights to other sizes: no backend, no files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.model.structure.axis import Dimension, Joined, Product, Unknown, WeightStructure
from tfaip.trainer.transfer.params import TransferMode, TransferParams, WeightRules
from tfaip.trainer.transfer.plan import Outcome, Source, Transfer, log_table, plan_transfer, transfer_table


def recurrent(first: int, second: int, units: int, gates: int = 4) -> dict[str, WeightStructure]:
    """The weights of a layer with gates after the join of two layers, and of these."""
    a, b = Dimension("a/bias/0", first), Dimension("b/bias/0", second)
    u = Dimension("rnn/recurrent_kernel/0", units)
    gated = Product((Dimension("gates", gates, is_fixed=True), u))
    rows = Joined((a, b))
    return {
        "a/bias": WeightStructure((a,)),
        "b/bias": WeightStructure((b,)),
        "rnn/kernel": WeightStructure((rows, gated), inputs=(0,)),
        "rnn/recurrent_kernel": WeightStructure((u, gated)),
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


def plan(old: dict[str, WeightStructure], new: dict[str, WeightStructure], known: bool, blocks: Any = None) -> Transfer:
    source = Source("old", numbered(old, 1), structure=old if known else {})
    return plan_transfer(shapes(new), [source], WeightRules(blocks=blocks or {}), TransferMode.SUBSET, structure=new)


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


def unknown_top(rows: int) -> dict[str, WeightStructure]:
    """A kernel whose inputs are not known."""
    return {"top/kernel": WeightStructure((Unknown(rows, "why"), Dimension("units", 2)), inputs=(0,))}


def outcome(transfer: Transfer, path: str = "top/kernel") -> str:
    (row,) = [row for row in transfer.rows if row.target == path]
    return f"{row.outcome} {row.fit or row.reason}".strip()


def test_what_is_not_known_is_one_block_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    transfer = plan(unknown_top(8), unknown_top(12), True)
    advice = "since why: if its inputs were joined, give blocks; source: 8x2)"
    log_table(transfer)
    (warning,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert warning.getMessage() == f"  top/kernel  12x2   loaded in part [8, 2] -> [12, 2] (as one block, {advice}"
    values = transfer.arrays(numbered(unknown_top(12), -1000))["top/kernel"]
    np.testing.assert_array_equal(values[:8], numbered(unknown_top(8), 1)["top/kernel"])
    # Without any structure too; nothing speaks against an equal shape.
    sources = [Source("old", {"a": np.ones(2)})]
    (row,) = plan_transfer({"a": (3,)}, sources, WeightRules(), TransferMode.SUBSET).rows
    assert (row.outcome, str(row.fit)) == (Outcome.PARTLY_LOADED, "[2] -> [3]")
    assert "its inputs are not known" in row.reason
    assert outcome(plan(unknown_top(8), unknown_top(8), True)) == "loaded"


JOINED = [{"top/kernel": recurrent(first, second, 2)["rnn/kernel"]} for first, second in ((3, 5), (5, 7))]
UNKNOWN = [unknown_top(8), unknown_top(12)]


@pytest.mark.parametrize(
    ("nets", "blocks", "expected"),
    [
        # The new sizes after the old ones, as the structure tells nothing.
        (UNKNOWN, {"top": [3, 5, 5, 7]}, "loaded in part [3+5, 2] -> [5+7, 2]"),
        # A single size: the inputs were not joined.
        (UNKNOWN, {".*/kernel": [8]}, "loaded in part [8, 2] -> [12, 2]"),
        # An odd number of sizes is that of the old ones.
        (
            UNKNOWN,
            {"top": [2, 3, 3]},
            "ambiguous blocks gives 3 inputs, the model joins an unknown number: give the new",
        ),
        # The old sizes are enough if the new parts are known.
        (JOINED, None, "left fresh: ambiguous the sizes of its parts in the source are not known"),
        (JOINED, {"top": [2, 6]}, "loaded in part [2+6, 4*2] -> [5+7, 4*2]"),
        (JOINED, {"top": [2, 4, 2]}, "ambiguous blocks gives 3 inputs, the model joins 2: give the new sizes after"),
        (
            JOINED,
            {"top": [3, 5, 5, 8]},
            "ambiguous blocks gives [3, 5, 5, 8], but there are 8 inputs in the source, 12",
        ),
    ],
)
def test_blocks_tell_the_sizes_of_joined_inputs(nets: list[Any], blocks: Any, expected: str) -> None:
    transfer = plan(*nets, False, blocks=blocks)
    assert expected in outcome(transfer)
    if blocks == {"top": [3, 5, 5, 7]}:
        values = transfer.arrays(numbered(nets[1], -1000))["top/kernel"]
        assert (values[:, 0] > 0).tolist() == [True] * 3 + [False] * 2 + [True] * 5 + [False] * 2


def test_blocks_only_apply_to_inputs_of_their_size() -> None:
    # 8 units: the recurrent kernel has 8 rows, too, but these are no joined inputs.
    old, new = recurrent(3, 5, 8), recurrent(5, 7, 9)
    transfer = plan(old, new, True, blocks={"rnn": [4, 4]})
    assert outcome(transfer, "rnn/kernel") == "loaded in part [4+4, 4*8] -> [5+7, 4*9]"
    assert outcome(transfer, "rnn/recurrent_kernel") == "loaded in part [8, 4*8] -> [9, 4*9]"


def test_blocks_that_fit_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="^blocks 'bottom' matches no weight; .*the weights are top/kernel$"):
        plan(*UNKNOWN, False, blocks={"bottom": [3, 5]})
    text = (
        r"^blocks 'top' gives \[3, 4\], which are the inputs of no weight .* the source these are top/kernel \(8x2\)$"
    )
    with pytest.raises(UsageError, match=text):
        plan(*UNKNOWN, False, blocks={"top": [3, 4]})
    for sizes in ([], [0], "3"):
        with pytest.raises(
            UsageError, match=r"^blocks\['top'\] is .*, expected a list of positive sizes, e.g. \[3,5\]$"
        ):
            TransferParams(blocks={"top": sizes})
    with pytest.raises(UsageError, match=r"^blocks is '\(', expected a regular expression \(.*\) as a key$"):
        TransferParams(blocks={"(": [3]})


def test_a_smaller_model_takes_the_leading_entries_of_each_part() -> None:
    big, small = recurrent(5, 7, 7), recurrent(3, 5, 5)
    values = plan(big, small, True).arrays(numbered(small, -10000))
    before = numbered(big, 1)["rnn/kernel"]
    rows, columns = [0, 1, 2, 5, 6, 7, 8, 9], [7 * gate + unit for gate in range(4) for unit in range(5)]
    np.testing.assert_array_equal(values["rnn/kernel"], before[np.ix_(rows, columns)])


def test_equal_shapes_whose_parts_differ_are_copied_part_by_part() -> None:
    old, new = recurrent(3, 5, 5), recurrent(5, 3, 5)
    transfer = plan(old, new, True)
    assert outcome(transfer, "rnn/kernel") == "loaded in part [3+5, 4*5] -> [5+3, 4*5]"
    values = transfer.arrays(numbered(new, -10000))["rnn/kernel"]
    np.testing.assert_array_equal(values[5:8], numbered(old, 1)["rnn/kernel"][3:6])


def test_parts_are_renamed_as_weights_are() -> None:
    old, new = recurrent(3, 5, 5), recurrent(5, 7, 7)
    moved = Joined((Dimension("b/bias/0", 7), Dimension("c", 5)))
    new["rnn/kernel"] = WeightStructure((moved, new["rnn/kernel"].axes[1]), inputs=(0,))
    source = Source("old", numbered(old, 1), structure=old)
    for rename, expected in (([], 5), (["^a/bias/0$->c"], 8)):
        transfer = plan_transfer(shapes(new), [source], WeightRules(rename=rename), TransferMode.SUBSET, structure=new)
        values = transfer.arrays(numbered(new, -10000))["rnn/kernel"]
        assert (values[:, 0] > 0).sum() == expected
