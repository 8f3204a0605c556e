"""Names of variables: the path of attributes, equal in every build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest

from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import variables_by_path
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


def test_attributes_name_the_variables() -> None:
    assert paths(lambda: {"hidden": keras.layers.Dense(3), "logits": dense(2)}, (4,)) == {
        "hidden/bias": (3,),
        "hidden/kernel": (4, 3),
        "logits/kernel": (3, 2),
    }


def test_lists_and_dicts_of_layers() -> None:
    def make() -> dict[str, Any]:
        return {"stack": [dense(3), (dense(4), dense(5))], "heads": {"b": dense(6), "a": dense(7)}}

    assert paths(make, (2,)) == {
        "stack/0/kernel": (2, 3),
        "stack/1/0/kernel": (3, 4),
        "stack/1/1/kernel": (4, 5),
        "heads/b/kernel": (5, 6),
        "heads/a/kernel": (6, 7),
    }


def test_sequential_and_functional_models_name_their_layers() -> None:
    def make() -> dict[str, Any]:
        keras_input = keras.Input((3,))
        functional = keras.Model(keras_input, dense(5, name="out")(dense(4, name="inner")(keras_input)))
        return {"sequential": keras.Sequential([dense(3, name="only")]), "functional": functional}

    assert paths(make, (2,)) == {
        "sequential/only/kernel": (2, 3),
        "functional/inner/kernel": (3, 4),
        "functional/out/kernel": (4, 5),
    }


def test_layers_that_keras_named_go_by_their_position() -> None:
    def make() -> dict[str, Any]:
        keras_input = keras.Input((3,))
        functional = keras.Model(keras_input, dense(5)(dense(4, name="named")(keras_input)))
        return {"sequential": keras.Sequential([dense(3), dense(3)]), "functional": functional}

    # Position 0 of the functional model is its input.
    assert paths(make, (2,)) == {
        "sequential/0/kernel": (2, 3),
        "sequential/1/kernel": (3, 3),
        "functional/named/kernel": (3, 4),
        "functional/2/kernel": (4, 5),
    }


def test_attributes_that_differ_in_underscores_only_keep_them() -> None:
    found = paths(lambda: {"dense": dense(3), "_dense": dense(4), "_hidden": dense(5)}, (2,))
    assert found == {"dense/kernel": (2, 3), "_dense/kernel": (3, 4), "hidden/kernel": (4, 5)}


def test_two_variables_with_the_same_path_are_an_error() -> None:
    with pytest.raises(ValueError, match="two variables of LayersGraph have the same path.*heads/1/kernel"):
        paths(lambda: {"heads": {1: dense(2), "1": dense(2)}}, (2,))


def test_subclassed_models_are_walked_by_attribute() -> None:
    class Encoder(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first = dense(3)
            self.rest = [dense(4)]

        def call(self, x: Any) -> Any:
            return self.rest[0](self.first(x))

    assert paths(lambda: {"encoder": Encoder()}, (2,)) == {
        "encoder/first/kernel": (2, 3),
        "encoder/rest/0/kernel": (3, 4),
    }


def test_recurrent_cells() -> None:
    def make() -> dict[str, Any]:
        stacked = keras.layers.RNN([keras.layers.GRUCell(2), keras.layers.LSTMCell(3)], return_sequences=True)
        return {"stacked": stacked, "both": keras.layers.Bidirectional(keras.layers.LSTM(4, use_bias=False))}

    found = paths(make, (5, 1))
    weights = {path: shape for path, shape in found.items() if "seed_generator" not in path}
    assert len(weights) == 3 + 3 + 2 + 2
    assert found["stacked/cell/cells/0/bias"] == (2, 6)
    assert found["stacked/cell/cells/0/kernel"] == (1, 6)
    assert found["stacked/cell/cells/1/recurrent_kernel"] == (3, 12)
    assert found["both/forward_layer/cell/kernel"] == (3, 16)
    assert found["both/backward_layer/cell/recurrent_kernel"] == (4, 16)


@pytest.mark.backend
def test_batch_norm_statistics_and_seed_states() -> None:
    def make() -> dict[str, Any]:
        return {"norm": keras.layers.BatchNormalization(), "dropout": keras.layers.Dropout(0.5)}

    assert paths(make, (3,)) == {
        "norm/beta": (3,),
        "norm/gamma": (3,),
        "norm/moving_mean": (3,),
        "norm/moving_variance": (3,),
        "dropout/seed_generator/state": (2,),
    }


def test_a_shared_layer_has_one_name() -> None:
    def make() -> dict[str, Any]:
        shared = dense(2)
        return {"second": [shared], "first": {"nested": [shared]}, "zebra": shared}

    # The shortest path wins, whatever its letters.
    assert paths(make, (2,)) == {"zebra/kernel": (2, 2)}


def test_of_equally_short_paths_the_first_in_the_alphabet_names_a_shared_layer() -> None:
    def make() -> dict[str, Any]:
        shared = dense(2)
        return {"b": shared, "a": shared}

    assert paths(make, (2,)) == {"a/kernel": (2, 2)}


def test_weights_of_the_graph_itself() -> None:
    class Graph(GraphBase[ModelBaseParams]):
        def __init__(self) -> None:
            super().__init__(ModelBaseParams())
            self.scale = self.add_weight(shape=(2,), name="anything")

        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            return {"y": inputs["x"] * self.scale}

    assert list(variables_by_path(Graph())) == ["scale"]


def test_graphs_in_graphs() -> None:
    inner = LayersGraph(dense=dense(3))
    outer = GraphOfGraph(inner)
    outer.predict({"x": np.zeros((1, 2), np.float32)})
    assert list(variables_by_path(outer)) == ["inner/dense/kernel"]


class GraphOfGraph(GraphBase[ModelBaseParams]):
    def __init__(self, inner: LayersGraph) -> None:
        super().__init__(ModelBaseParams())
        self.inner = inner

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return self.inner.predict(inputs)


def test_a_variable_that_no_attribute_leads_to_is_an_error() -> None:
    class Graph(GraphBase[ModelBaseParams]):
        def __init__(self) -> None:
            super().__init__(ModelBaseParams())
            self.reachable = self.add_weight(shape=(1,), name="reachable")
            self.add_weight(shape=(1,), name="forgotten")

        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            return inputs

    with pytest.raises(ValueError, match="variables that no attribute of Graph leads to: .*forgotten"):
        variables_by_path(Graph())
