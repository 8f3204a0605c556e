"""Warm starts of wider models: which entries are loaded, and that the training goes on from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.net import NetGraph, NetModelParams, net_params
from test.trainer.warmstart.test_warmstarter import build
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.model.weights import load_arrays
from tfaip.params import pai_dataclass
from tfaip.trainer.transfer.plan import Source
from tfaip.trainer.warmstart import WarmStartMode, WarmStartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.typing import TensorDict

SUBSET = WarmStartMode.SUBSET


def test_a_wider_model_takes_the_leading_units(averaged_run: Path, logged: list[str]) -> None:
    source, params = averaged_run / "best", net_params()
    params.scenario.model.units = 5
    fresh, params.warmstart = build(params), WarmStartParams(model=str(source), mode=SUBSET)
    weights, old = build(params), load_arrays(source / "weights.safetensors")
    kernel = fresh["encoder/conv/1/kernel"].copy()
    kernel[:, :3, :3] = old["encoder/conv/1/kernel"]
    np.testing.assert_array_equal(weights["encoder/conv/1/kernel"], kernel)
    np.testing.assert_array_equal(weights["head/kernel"][:3], old["head/kernel"])
    np.testing.assert_array_equal(weights["head/kernel"][3:], fresh["head/kernel"][3:])
    loaded = "2 copied, 9 resized, 0 fresh"
    assert f"warm start from {source}: {loaded}" in logged
    assert "  encoder/conv/1/kernel         2x5x5  loaded in part [2, 3, 3] -> [2, 5, 5]" in logged
    assert "  head/kernel                   5x1    loaded in part [3, 1] -> [5, 1]" in logged


class JoinedGraph(NetGraph):
    """Two joined layers before the head."""

    def __init__(self, params: NetModelParams, **kwargs: Any) -> None:
        GraphBase.__init__(self, params, **kwargs)
        self.left, self.right = keras.layers.Dense(params.units), keras.layers.Dense(2 * params.units)
        self.head = keras.layers.Dense(1, kernel_initializer="zeros")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        return {"y": self.head(ops.concatenate([self.left(x), self.right(x)], axis=-1))}


@pai_dataclass
class JoinedModelParams(NetModelParams):
    def graph_cls(self) -> type[GraphBase[Any]]:
        return JoinedGraph


class InMemory(WarmStarter):
    """Arrays of a joined graph with 2 and 4 units."""

    def read_sources(self) -> list[Source]:
        shapes = {"left": 2, "right": 4}
        arrays = {f"{name}/kernel": np.ones((4, units), np.float32) for name, units in shapes.items()}
        arrays["head/kernel"] = np.arange(1, 7, dtype=np.float32).reshape(6, 1)
        return [Source("memory", arrays)]


def joined_head(**fields: Any) -> list[float]:
    """The rows of the head of a graph with 3 and 6 units; 0 where they are fresh."""
    params = net_params()
    params.scenario.model = JoinedModelParams(units=3)
    warmstarter = InMemory(WarmStartParams(mode=SUBSET, allow_partial=True, include=".*kernel", **fields))
    weights = build(params, warmstarter)["head/kernel"]
    return [float(value) for value in weights[:, 0]]


def test_rows_after_joined_layers_are_cut_between_them() -> None:
    assert joined_head() == [1, 2, 0, 3, 4, 5, 6, 0, 0]
    # One of two sizes follows from the other.
    assert joined_head(rename=["^left->gone"]) == [1, 2, 0, 3, 4, 5, 6, 0, 0]


def test_what_a_file_does_not_tell_is_given() -> None:
    unknown = {"rename": ["^(left|right)->gone_\\1"]}
    with pytest.raises(UsageError) as caught:
        joined_head(**unknown)
    assert str(caught.value) == (
        "nothing in memory matches the model: it holds head/kernel, left/kernel and 1 more, the model "
        "needs head/kernel (ambiguous: the sizes of its parts in the source are not known), left/kernel and 1 more; "
        "map names with warmstart.rename 'old->new', or choose another warmstart.model, or give the sizes of joined "
        "inputs with warmstart.blocks 'path=[3,5]'"
    )
    assert joined_head(**unknown, blocks={"head": [2, 4]}) == [1, 2, 0, 3, 4, 5, 6, 0, 0]
    assert joined_head(**unknown, blocks={"head": [1, 5, 2, 7]}) == [1, 0, 2, 3, 4, 5, 6, 0, 0]


def test_blocks_that_fit_nothing_name_the_flag() -> None:
    with pytest.raises(UsageError, match=r"^warmstart.blocks 'head' gives \[2, 5\], which are the inputs of no weight"):
        joined_head(blocks={"head": [2, 5]})
