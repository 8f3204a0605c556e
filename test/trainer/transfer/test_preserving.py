"""Real layers that grow: which rows end where, and outputs that stay equal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from keras import layers, ops

from test.model.structure.net import Net
from test.trainer.transfer.grown import outcomes, transferred
from tfaip.model.weights import assign_arrays


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


def transformer(width: int, heads: int) -> Net:
    """Attention in the way of transformers, without the normalisation."""
    return Net(
        {"x": (4,)},
        lambda net, x: net.out(ops.mean(_block(net, net.embedding(x)), 1)),
        embedding=layers.Embedding(7, width),
        attention=layers.MultiHeadAttention(heads, 3),
        up=layers.Dense(2 * width, activation="relu"),
        down=layers.Dense(width),
        out=layers.Dense(3),
    )


def _block(net: Any, x: Any) -> Any:
    x = x + net.attention(x, x)
    return x + net.down(net.up(x))


def test_more_heads_and_a_wider_residual_keep_the_outputs() -> None:
    old, new = transformer(3, 1), transformer(5, 2)
    new.randomize(2)
    plan = outcomes(transferred(old, new, zero=True))
    assert plan["attention/query_dense/kernel"] == "[3, 1, 3] -> [5, 2, 3]"
    assert plan["attention/output_dense/kernel"] == "[1, 3, 3] -> [2, 3, 5]"
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


@pytest.mark.backend
def test_deeper_and_wider_at_once() -> None:
    """The rows of the last layer belong to another layer now: its parts follow those of the former one."""

    def run(net: Any, x: Any) -> Any:
        for layer in net.layers_of_it:
            x = layer(x)
        return net.out(x)

    def make(depth: int, units: int) -> Net:
        stack = [layers.Bidirectional(layers.SimpleRNN(units, return_sequences=True)) for _ in range(depth)]
        return Net({"x": (None, 2)}, run, layers_of_it=stack, out=layers.Dense(3))

    old, new = make(1, 3), make(2, 5)
    assert outcomes(transferred(old, new))["out/kernel"] == "[3+3, 3] -> [5+5, 3]"
    # A file does not tell the sizes of a layer that it does not have.
    assert outcomes(transferred(old, new, knows_old=False))["out/kernel"] == (
        "the sizes of its parts in the source are not known"
    )
    given = transferred(old, new, knows_old=False, blocks={"out": [3, 3]})
    assert outcomes(given)["out/kernel"] == "[3+3, 3] -> [5+5, 3]"
