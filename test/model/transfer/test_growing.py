"""Models that grow: which entries end where, by structures and with real layers."""

from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from test.model.structure.net import Net
from tfaip.errors import UsageError
from tfaip.model.structure.axis import Dimension, Joined, Product, Unknown, WeightStructure
from tfaip.model.transfer import Outcome, Source, Transfer, log_transfer, plan_transfer, transfer_table
from tfaip.model.weightrules import TransferMode, WeightRules
from tfaip.model.weights import assign_arrays
from tfaip.trainer.transferparams import TransferParams


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
    log_transfer(transfer, "old", only_if_changed=True)
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


def test_blocks_tell_the_old_and_the_new_sizes_of_joined_inputs() -> None:
    assert "left fresh: ambiguous the sizes of its parts in the source are not known" in outcome(plan(*JOINED, False))
    transfer = plan(*JOINED, False, blocks={"top": [2, 6, 4, 8]})
    assert outcome(transfer) == "loaded in part [2+6, 4*2] -> [4+8, 4*2]"
    # A single size: the inputs were not joined.
    assert outcome(plan(*UNKNOWN, False, blocks={".*/kernel": [8, 12]})) == "loaded in part [8, 2] -> [12, 2]"
    transfer = plan(*UNKNOWN, False, blocks={"top": [3, 5, 5, 7]})
    assert outcome(transfer) == "loaded in part [3+5, 2] -> [5+7, 2]"
    values = transfer.arrays(numbered(UNKNOWN[1], -1000))["top/kernel"]
    assert (values[:, 0] > 0).tolist() == [True] * 3 + [False] * 2 + [True] * 5 + [False] * 2
    # Nothing is said of another weight that the pattern matches.
    nets = [{**unknown_top(rows), "top/more": unknown_top(rows - 2)["top/kernel"]} for rows in (8, 12)]
    doubtful = [row.target for row in plan(*nets, False, blocks={"top": [3, 5, 5, 7]}).rows if row.reason]
    assert doubtful == ["top/more"]
    # 8 units: the recurrent kernel grows from 8 to 12 rows, too, but these are no joined inputs.
    transfer = plan(recurrent(3, 5, 8), recurrent(5, 7, 12), True, blocks={"rnn": [4, 4, 6, 6]})
    assert outcome(transfer, "rnn/kernel") == "loaded in part [4+4, 4*8] -> [6+6, 4*12]"
    assert outcome(transfer, "rnn/recurrent_kernel") == "loaded in part [8, 4*8] -> [12, 4*12]"


def test_blocks_that_fit_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="^blocks 'bottom' matches no weight; .*the weights are top/kernel$"):
        plan(*UNKNOWN, False, blocks={"bottom": [3, 5, 5, 7]})
    for sizes in ([3, 4, 5, 7], [3, 5, 5, 8]):
        with pytest.raises(UsageError, match=r"^blocks 'top' gives .* no weight has such inputs: .* \(8x2 -> 12x2\)$"):
            plan(*UNKNOWN, False, blocks={"top": sizes})
    for blocks in ({"top": [3]}, {"top": [0, 1]}, {"(": [3, 5]}):
        with pytest.raises(UsageError, match="^blocks.* is .*, expected"):
            TransferParams(blocks=blocks)


def test_parts_that_become_smaller_or_change_their_sizes_alone() -> None:
    for old, new, old_rows, new_rows, units in [
        (recurrent(5, 7, 7), recurrent(3, 5, 5), [0, 1, 2, 5, 6, 7, 8, 9], range(8), (7, 5)),
        (recurrent(3, 5, 5), recurrent(5, 3, 5), range(6), [0, 1, 2, 5, 6, 7], (5, 5)),  # of an equal shape
    ]:
        values = plan(old, new, True).arrays(numbered(new, -10000))["rnn/kernel"]
        before, (wide, narrow) = numbered(old, 1)["rnn/kernel"], units
        columns = [wide * gate + unit for gate in range(4) for unit in range(narrow)]
        np.testing.assert_array_equal(values[list(new_rows)], before[np.ix_(list(old_rows), columns)])


def test_parts_are_renamed_as_weights_are() -> None:
    old, new = recurrent(3, 5, 5), recurrent(5, 7, 7)
    moved = Joined((Dimension("b/bias/0", 7), Dimension("c", 5)))
    new["rnn/kernel"] = WeightStructure((moved, new["rnn/kernel"].axes[1]), inputs=(0,))
    source = Source("old", numbered(old, 1), structure=old)
    for rename, expected in (([], 5), (["^a/bias/0$->c"], 8)):
        transfer = plan_transfer(shapes(new), [source], WeightRules(rename=rename), TransferMode.SUBSET, structure=new)
        values = transfer.arrays(numbered(new, -10000))["rnn/kernel"]
        assert (values[:, 0] > 0).sum() == expected


def transferred(old: Net, new: Net, zero: bool = False, knows_old: bool = True, blocks: Any = None) -> Transfer:
    """Plan the transfer, and give the new layer its weights; `zero`: with new rows of 0."""
    source = Source("old", old.arrays(), structure=old.structure() if knows_old else {})
    shapes = {path: array.shape for path, array in new.arrays().items()}
    rules = WeightRules(blocks=blocks or {})
    plan = plan_transfer(shapes, [source], rules, TransferMode.SUBSET, new.structure())
    variables = new.variables_by_path()
    initial = {path: np.array(array) for path, array in new.arrays().items()}
    if zero:
        _clear_new_rows(plan, new, initial)
    for path, array in plan.arrays(initial).items():
        variables[path].assign(array)
    return plan


def _clear_new_rows(plan: Transfer, new: Net, initial: dict[str, np.ndarray]) -> None:
    """Set the rows of inputs that the old net lacks to 0: with them the outputs of both must be equal."""
    structure = new.structure()
    for row in plan.rows:
        if row.fit is not None:
            is_recurrent = row.target.endswith("recurrent_kernel")
            for axis in [0] if is_recurrent else structure[row.target].inputs or ():
                is_new = np.ones(row.shape[axis], dtype=bool)
                is_new[row.fit.positions()[axis][1]] = False
                initial[row.target][(slice(None),) * axis + (is_new,)] = 0


def outcomes(plan: Transfer) -> dict[str, str]:
    """What is said of each weight."""
    return {row.target: str(row.fit) if row.fit is not None else row.reason or str(row.outcome) for row in plan.rows}


def difference(old: Net, new: Net) -> float:
    """The largest difference of outputs, relative to the largest output."""
    before, after = old.outputs(), new.outputs()
    return float(np.abs(before - after).max() / np.abs(before).max())


def two_directions(units: int, first: int = 3, second: int = 5) -> Net:
    """Two joined layers, two bidirectional ones, and a dense one."""
    return Net(
        {"x": (None, 2)},
        lambda net, x: net.out(net.gru(net.lstm(ops.concatenate([net.a(x), net.b(x)], -1)))),
        a=layers.Dense(first),
        b=layers.Dense(second, activation="relu"),
        lstm=layers.Bidirectional(layers.LSTM(units, return_sequences=True)),
        gru=layers.Bidirectional(layers.GRU(units)),
        out=layers.Dense(3),
    )


@pytest.mark.slow
@pytest.mark.backend
def test_widening_recurrent_layers_keeps_the_outputs() -> None:
    old, new = two_directions(3), two_directions(5, first=5, second=7)
    new.randomize(2)
    initial = new.arrays()
    transferred(old, new)
    assert difference(old, new) > 0.01  # new rows as they were initialised
    expected = {
        "a/kernel": "[2, 3] -> [2, 5]",
        "a/bias": "[3] -> [5]",
        "b/kernel": "[2, 5] -> [2, 7]",
        "b/bias": "[5] -> [7]",
        **{f"lstm/{way}_layer/cell/kernel": "[3+5, 4*3] -> [5+7, 4*5]" for way in ("forward", "backward")},
        **{f"lstm/{way}_layer/cell/recurrent_kernel": "[3, 4*3] -> [5, 4*5]" for way in ("forward", "backward")},
        **{f"lstm/{way}_layer/cell/bias": "[4*3] -> [4*5]" for way in ("forward", "backward")},
        **{f"gru/{way}_layer/cell/kernel": "[3+3, 3*3] -> [5+5, 3*5]" for way in ("forward", "backward")},
        **{f"gru/{way}_layer/cell/recurrent_kernel": "[3, 3*3] -> [5, 3*5]" for way in ("forward", "backward")},
        **{f"gru/{way}_layer/cell/bias": "[2, 3*3] -> [2, 3*5]" for way in ("forward", "backward")},
        "out/kernel": "[3+3, 3] -> [5+5, 3]",
        "out/bias": "loaded",
    }
    # The old sizes are those of the old graph, or follow from the shapes in a file.
    for knows_old in (True, False):
        assign_arrays(new.variables_by_path(), initial, "before")
        assert outcomes(transferred(old, new, zero=True, knows_old=knows_old)) == expected
        assert difference(old, new) < 1e-6


@pytest.mark.parametrize("start", ["identity", "zeros"])
def test_a_new_layer_that_begins_as_the_identity_keeps_the_outputs(start: str) -> None:
    def run(net: Any, x: Any) -> Any:
        x = net.first(x)
        for layer in net.more:
            x = layer(x) if start == "identity" else x + layer(x)
        return net.out(x)

    def make(depth: int) -> Net:
        more = [layers.Dense(4, activation="relu", kernel_initializer=start) for _ in range(depth)]
        return Net({"x": (2,)}, run, first=layers.Dense(4, activation="relu"), more=more, out=layers.Dense(3))

    old, new = make(1), make(3)
    new.randomize(2)
    for layer in new.more[1:]:
        layer.kernel.assign(np.eye(4) if start == "identity" else np.zeros((4, 4)))
        layer.bias.assign(np.zeros(4))
    plan = outcomes(transferred(old, new))
    fresh = [path for path, outcome in plan.items() if outcome != "loaded"]
    assert fresh == ["more/1/bias", "more/1/kernel", "more/2/bias", "more/2/kernel"]
    assert difference(old, new) < 1e-6
