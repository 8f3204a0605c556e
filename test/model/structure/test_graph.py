"""Structure of the weights of real layers."""

from collections.abc import Callable
from typing import Any

import keras
import pytest
from keras import layers, ops

from test.model.structure.net import Net
from tfaip.layers.baselayer import InlinedLayer
from tfaip.model.structure.axis import Unknown, WeightStructure, dimensions_of, sizes_text


def text(weight: WeightStructure) -> str:
    """Sizes of the axes; `in` after those of inputs, `?` for unknown ones."""
    texts = []
    for i, axis in enumerate(weight.axes):
        known = "?" if isinstance(axis, Unknown) else sizes_text(axis)
        texts.append(known + (" in" if i in (weight.inputs or ()) else ""))
    return ", ".join(texts)


def found(net: Net) -> dict[str, str]:
    return {path: text(weight) for path, weight in net.structure().items() if "seed" not in path}


def joined_rows(net: Any, *inputs: Any) -> Any:
    """Two dense layers of 3 and 5 units, joined."""
    return ops.concatenate([net.a(inputs[0]), net.b(inputs[0])], axis=-1)


def pair() -> dict[str, Any]:
    return {"a": layers.Dense(3, use_bias=False), "b": layers.Dense(5, use_bias=False)}


PAIR = {"a/kernel": "2 in, 3", "b/kernel": "2 in, 5"}

# A layer after 3 + 5 joined features of a sequence of any length.
GRU = {"cell/kernel": "3+5 in, 3*2", "cell/recurrent_kernel": "2, 3*2"}
LSTM = {"cell/kernel": "3+5 in, 4*2", "cell/recurrent_kernel": "2, 4*2", "cell/bias": "4*2"}
AFTER_A_JOIN: list[tuple[Callable[[], Any], dict[str, str]]] = [
    (lambda: layers.Dense(4), {"kernel": "3+5 in, 4", "bias": "4"}),
    (lambda: layers.LSTM(2), LSTM),
    (lambda: layers.GRU(2), GRU | {"cell/bias": "2, 3*2"}),
    (lambda: layers.GRU(2, reset_after=False), GRU | {"cell/bias": "3*2"}),
    (lambda: layers.SimpleRNN(2), {"cell/kernel": "3+5 in, 2", "cell/recurrent_kernel": "2, 2", "cell/bias": "2"}),
    (lambda: layers.Conv1D(4, 2, padding="same"), {"kernel": "2, 3+5 in, 4", "bias": "4"}),
    (lambda: layers.Conv1DTranspose(4, 2), {"kernel": "2, 4, 3+5 in", "bias": "4"}),
    (lambda: layers.Conv1D(4, 2, groups=2), {"kernel": "?, ?, ?", "bias": "?"}),
    (layers.BatchNormalization, dict.fromkeys(["gamma", "beta", "moving_mean", "moving_variance"], "3+5")),
    (lambda: layers.GroupNormalization(2), {"gamma": "3+5", "beta": "3+5"}),
    (lambda: layers.TimeDistributed(layers.Dense(4)), {"layer/kernel": "3+5 in, 4", "layer/bias": "4"}),
]


@pytest.mark.parametrize(("make", "expected"), AFTER_A_JOIN)
def test_a_layer_after_a_join(make: Callable[[], Any], expected: dict[str, str]) -> None:
    net = Net({"x": (6, 2)}, lambda net, x: net.x(joined_rows(net, x)), x=make(), **pair())
    assert found(net) == PAIR | {f"x/{path}": axes for path, axes in expected.items()}


OPERATIONS: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: layers.Dropout(0.1)(ops.relu(x) * 2.0), "3+5"),
    (lambda x: x[:, -1], "3+5"),
    (lambda x: layers.Flatten()(x), "6*(3+5)"),
    (lambda x: ops.reshape(x, (-1, 48)), "6*(3+5)"),
    (lambda x: ops.reshape(x, (-1, 3, 16)), "?"),
    (lambda x: ops.concatenate([ops.concatenate([x, x], 1), ops.concatenate([x, x], 1)], -1), "3+5+3+5"),
    (lambda x: x[..., :3], "?"),
    (lambda x: layers.MaxPooling1D(2)(x), "3+5"),
    (lambda x: layers.Add()([layers.Dense(8)(x), x]), "3+5"),
    (lambda x: layers.Attention()([x, x]), "3+5"),
    (lambda x: ops.mean(ops.where(x > 0, x, 0.0), 1), "3+5"),
    (lambda x: layers.GroupNormalization(2, axis=1)(x), "?"),
]


@pytest.mark.slow
def test_the_rows_of_a_layer_after_operations() -> None:
    for between, expected in OPERATIONS:
        top = layers.Dense(2)
        net = Net({"x": (6, 2)}, lambda net, x, f=between: net.top(f(joined_rows(net, x))), top=top, **pair())
        rows = found(net)["top/kernel"].split(" in")[0]
        assert rows == expected


@pytest.mark.backend
def test_the_rows_after_two_directions_have_two_parts() -> None:
    net = Net(
        {"x": (None, 3)},
        lambda net, x: net.out(net.second(net.first(x))),
        first=layers.Bidirectional(layers.LSTM(2, return_sequences=True)),
        second=layers.Bidirectional(layers.GRU(4, return_sequences=True), merge_mode="sum"),
        out=layers.Dense(2, use_bias=False),
    )
    structure = net.structure()
    assert {path: text(weight) for path, weight in structure.items() if "seed" not in path} == {
        "out/kernel": "4 in, 2",
        **{f"first/{way}/cell/kernel": "3 in, 4*2" for way in ("backward_layer", "forward_layer")},
        **{f"first/{way}/cell/recurrent_kernel": "2, 4*2" for way in ("backward_layer", "forward_layer")},
        **{f"first/{way}/cell/bias": "4*2" for way in ("backward_layer", "forward_layer")},
        **{f"second/{way}/cell/kernel": "2+2 in, 3*4" for way in ("backward_layer", "forward_layer")},
        **{f"second/{way}/cell/recurrent_kernel": "4, 3*4" for way in ("backward_layer", "forward_layer")},
        **{f"second/{way}/cell/bias": "2, 3*4" for way in ("backward_layer", "forward_layer")},
    }
    rows = structure["second/forward_layer/cell/kernel"].axes[0]
    assert list(dimensions_of(rows)) == [
        f"first/{way}_layer/cell/recurrent_kernel/0" for way in ("forward", "backward")
    ]


def test_attention_by_head() -> None:
    net = Net(
        {"x": (6, 2)},
        lambda net, x: net.out(net.m(net.p(x), net.p(x))),
        p=layers.Dense(8),
        m=layers.MultiHeadAttention(2, 4, use_bias=False),
        out=layers.Dense(1),
    )
    structure = found(net)
    assert {path: value for path, value in structure.items() if path.startswith("m/")} == {
        **{f"m/{part}_dense/kernel": "8 in, 2, 4" for part in ("query", "key", "value")},
        "m/output_dense/kernel": "2 in, 4 in, 8",
    }


class Own(keras.layers.Layer):
    """Weights of its own, and a number before the tensor."""

    is_opaque = False

    def __init__(self, units: int) -> None:
        super().__init__()
        self.scale = self.add_weight(shape=(), name="scale")
        self.w = self.add_weight(shape=(8, units), name="w")
        self.b = self.add_weight(shape=(units,), name="b")
        self.unused = self.add_weight(shape=(units,), name="unused")

    def call(self, x: Any) -> Any:
        if self.is_opaque and isinstance(x, keras.KerasTensor):
            raise TypeError("no tensor with values")
        self.add_loss(ops.sum(x))
        return self.scale * ops.relu(self.b + ops.matmul(x, self.w))


@pytest.mark.backend
def test_weights_that_a_layer_of_the_user_has_are_one_block() -> None:
    def run(net: Any, x: Any) -> Any:
        return net.out(net.own(joined_rows(net, x), training=False))

    net = Net({"x": (2,)}, run, own=Own(4), out=layers.Dense(1), **pair())
    losses = len(net.losses)
    assert found(net) == PAIR | {
        "own/scale": "",
        "own/w": "?, ?",
        "own/b": "?",
        "own/unused": "?",
        "out/kernel": "? in, 1",
        "out/bias": "1",
    }
    own = [path for path, weight in net.structure().items() if weight.inputs is None]
    assert own == ["own/b", "own/scale", "own/unused", "own/w"]
    assert len(net.losses) == losses  # none of a layer is left behind
    # What needs values cannot be followed: its weights and what comes next are unknown, but nothing else.
    net.own.is_opaque = True
    structure = net.structure()
    assert [text(structure[path]) for path in ("a/kernel", "own/w", "out/kernel")] == ["2 in, 3", "?, ?", "? in, 1"]
    rows = structure["out/kernel"].axes[0]
    assert isinstance(rows, Unknown)
    assert rows.reason == f"{net.own.name} cannot be followed"


def test_a_keras_model_within_a_graph() -> None:
    inputs = keras.Input((4, 4, 1))
    both = layers.Concatenate()([layers.Conv2D(2, 2)(inputs), layers.Conv2D(3, 2)(inputs)])
    flat = layers.Flatten()(layers.MaxPooling2D(3)(both))
    functional = keras.Model(inputs, layers.Dense(7, name="top")(flat))
    net = Net({"x": (4, 4, 1)}, lambda net, x: net.m(x), m=keras.Sequential([functional, layers.Dense(2)]))
    structure = {path: value for path, value in found(net).items() if path.endswith("kernel")}
    assert structure == {
        "m/0/1/kernel": "2, 2, 1 in, 2",
        "m/0/2/kernel": "2, 2, 1 in, 3",
        "m/0/top/kernel": "2+3 in, 7",
        "m/1/kernel": "7 in, 2",
    }


@pytest.mark.parametrize("base", [layers.Layer, InlinedLayer])
def test_layers_that_consist_of_layers_are_followed(base: Any) -> None:
    class Both(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = layers.Dense(3), layers.Dense(5)

        def call(self, x: Any) -> Any:
            return ops.concatenate([self.first(x), self.second(x)], -1)

    net = Net({"x": (2,)}, lambda net, x: net.out(net.both(x)), both=Both(), out=layers.Dense(1))
    assert found(net)["out/kernel"] == "3+5 in, 1"
