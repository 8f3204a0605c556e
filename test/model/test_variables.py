"""Names of variables: the path of attributes, equal in every build."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import layers_by_path, variables_by_path
from tfaip.util.typing import TensorDict


class LayersGraph(GraphBase[ModelBaseParams]):
    """Holds the attributes that a function makes and calls them one after the other."""

    def __init__(self, **layers: Any) -> None:
        super().__init__(ModelBaseParams())
        self._order = list(layers)
        for name, layer in layers.items():
            setattr(self, name, layer)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        for name in self._order:
            x = _call(getattr(self, name), x)
        return {"y": x}


def _call(part: Any, x: Any) -> Any:
    if isinstance(part, dict):
        part = list(part.values())
    if isinstance(part, (list, tuple)):
        for layer in part:
            x = _call(layer, x)
        return x
    return part(x)


def paths(make: Callable[[], dict[str, Any]], shape: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """Path -> shape of every variable of a built graph; the same in a second build of this process."""
    found = []
    for _ in range(2):
        graph = LayersGraph(**make())
        graph.predict({"x": np.zeros((2, *shape), np.float32)})
        named = variables_by_path(graph)
        assert {id(v) for v in named.values()} == {id(v) for v in graph.variables}
        found.append({path: tuple(variable.shape) for path, variable in named.items()})
    assert found[0] == found[1]
    assert list(found[0]) == list(found[1])
    return found[0]


def dense(units: int, **kwargs: Any) -> keras.layers.Dense:
    return keras.layers.Dense(units, use_bias=False, **kwargs)


def functional(names: list[str | None]) -> keras.Model:
    keras_input = keras.Input((3,))
    inner, out = (dense(units, name=name) for units, name in zip((4, 5), names, strict=True))
    return keras.Model(keras_input, out(inner(keras_input)))


def shared(nested: bool) -> dict[str, Any]:
    layer = dense(2)
    return {"second": [layer], "first": {"nested": [layer]}, "zebra": layer} if nested else {"b": layer, "a": layer}


@pytest.mark.backend
@pytest.mark.parametrize(
    ("make", "size", "expected"),
    [
        (
            lambda: {"hidden": keras.layers.Dense(3), "logits": dense(2)},
            4,
            {"hidden/bias": (3,), "hidden/kernel": (4, 3), "logits/kernel": (3, 2)},
        ),
        (
            lambda: {"stack": [dense(3), (dense(4), dense(5))], "heads": {"b": dense(6), "a": dense(7)}},
            2,
            {"stack/0/kernel": (2, 3), "stack/1/0/kernel": (3, 4), "stack/1/1/kernel": (4, 5)}
            | {"heads/b/kernel": (5, 6), "heads/a/kernel": (6, 7)},
        ),
        # Layers that Keras named go by their position; 0 of the functional model is its input.
        (
            lambda: {"sequential": keras.Sequential([dense(3), dense(3)]), "graph": functional(["named", None])},
            2,
            {"sequential/0/kernel": (2, 3), "sequential/1/kernel": (3, 3)}
            | {"graph/named/kernel": (3, 4), "graph/2/kernel": (4, 5)},
        ),
        # Attributes that differ in underscores only keep them.
        (
            lambda: {"dense": dense(3), "_dense": dense(4), "_hidden": dense(5)},
            2,
            {"dense/kernel": (2, 3), "_dense/kernel": (3, 4), "hidden/kernel": (4, 5)},
        ),
        (
            lambda: {"both": keras.layers.Bidirectional(keras.layers.SimpleRNN(4, use_bias=False))},
            (5, 1),
            {f"both/{way}_layer/cell/kernel": (1, 4) for way in ("forward", "backward")}
            | {f"both/{way}_layer/cell/recurrent_kernel": (4, 4) for way in ("forward", "backward")},
        ),
        (
            lambda: {"norm": keras.layers.BatchNormalization(), "dropout": keras.layers.Dropout(0.5)},
            3,
            {f"norm/{name}": (3,) for name in ("beta", "gamma", "moving_mean", "moving_variance")}
            | {"dropout/seed_generator/state": (2,)},
        ),
        # A shared layer has one name: the shortest path, whatever its letters, then the first in the alphabet.
        (lambda: shared(nested=True), 2, {"zebra/kernel": (2, 2)}),
        (lambda: shared(nested=False), 2, {"a/kernel": (2, 2)}),
    ],
)
def test_attributes_name_the_variables(make: Callable[[], Any], size: Any, expected: dict[str, Any]) -> None:
    found = paths(make, size if isinstance(size, tuple) else (size,))
    if "both/forward_layer/cell/kernel" in expected:  # states of random generators, which RNNs have
        found = {path: shape for path, shape in found.items() if "seed_generator" not in path}
    assert found == expected


class Outer(GraphBase[ModelBaseParams]):
    """A weight of its own, and a graph."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.inner = LayersGraph(dense=dense(3))
        self.scale = self.add_weight(shape=(1,), name="anything")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return self.inner.predict({"x": inputs["x"] * self.scale})


def test_graphs_in_graphs_and_variables_without_a_path_of_their_own() -> None:
    outer = Outer()
    outer.predict({"x": np.zeros((1, 2), np.float32)})
    assert set(variables_by_path(outer)) == {"inner/dense/kernel", "scale"}
    del vars(outer)["scale"]
    with pytest.raises(ValueError, match="variables that no attribute of Outer leads to: .*anything"):
        variables_by_path(outer)
    with pytest.raises(ValueError, match="two variables of LayersGraph have the same path.*heads/1/kernel"):
        paths(lambda: {"heads": {1: dense(2), "1": dense(2)}}, (2,))


def test_layers_with_weights_on_every_level_once() -> None:
    shared_layer = keras.layers.Dense(2)
    stack = [shared_layer, keras.layers.Dropout(0.1), keras.Sequential([keras.layers.Dense(2), shared_layer])]
    heads = {"a": keras.layers.Dense(1), "b": keras.layers.Activation("relu")}
    graph = LayersGraph(stack=stack, lstm=keras.layers.Bidirectional(keras.layers.LSTM(2)), heads=heads)
    graph.predict({"x": np.zeros((1, 3, 2), np.float32)})
    layers = layers_by_path(graph)
    paths = list(layers)
    assert [path for path in paths if not path.startswith("lstm")] == ["heads/a", "stack/0", "stack/2", "stack/2/0"]
    assert {"lstm", "lstm/forward_layer", "lstm/backward_layer/cell"} <= set(paths)
    assert layers["stack/2"].layers[1] is layers["stack/0"]
    # What a layer is called begins the path of what it holds.
    for path in variables_by_path(graph):
        assert "seed_generator" in path or path.rpartition("/")[0] in layers
