"""Sources that belong to a part of the model: equal names in two sources, each below its prefix."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from tfaip.errors import UsageError
from tfaip.imports import GraphBase, ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import save_arrays
from tfaip.trainer.warmstart import WarmStartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter
from tfaip.util.typing import TensorDict

PART = {"hidden/kernel": (2, 3), "hidden/bias": (3,), "out/kernel": (3, 1), "out/bias": (1,)}


class Part(keras.layers.Layer):
    """Two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(3), keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.out(self.hidden(inputs))


class JointGraph(GraphBase[ModelBaseParams]):
    """Two parts of equal form."""

    def __init__(self) -> None:
        super().__init__(ModelBaseParams())
        self.am, self.lm = Part(), Part()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.am(inputs["x"]) + self.lm(inputs["x"])}


def values(factor: float) -> dict[str, np.ndarray]:
    sizes = PART.items()
    return {name: factor * np.arange(1, 1 + np.prod(s), dtype="float32").reshape(s) for name, s in sizes}


def below(prefix: str, factor: float) -> dict[str, list[Any]]:
    return {f"{prefix}/{name}": array.tolist() for name, array in values(factor).items()}


def started(**fields: Any) -> dict[str, list[Any]]:
    """The weights after a warm start; those that are left fresh are drawn with the same seed."""
    keras.utils.set_random_seed(1)
    graph = JointGraph()
    graph.predict({"x": np.ones((2, 2), "float32")})
    WarmStarter(WarmStartParams(**fields)).apply(graph)
    found = variables_by_path(graph)
    return {name: keras.ops.convert_to_numpy(found[name]).tolist() for name in found}


@pytest.fixture
def sources(tmp_path: Path) -> list[str]:
    """Two files with weights of the same names."""
    for name, factor in (("am", 1), ("lm", 10)):
        (tmp_path / name).mkdir()
        save_arrays(tmp_path / name / "weights.safetensors", values(factor))
    return [str(tmp_path / "am"), str(tmp_path / "lm")]


def test_each_source_has_its_part_of_the_model(sources: list[str], logged: list[str]) -> None:
    assert started(model=sources, prefixes=["am", "lm"]) == {**below("am", 1), **below("lm", 10)}
    assert f"  lm/out/bias       1      loaded from {sources[1]}: lm/out/bias" in logged
    # Without prefixes the first source has all that is looked up.
    assert started(model=sources, rename_targets=["^[al]m/->"]) == {**below("am", 1), **below("lm", 1)}


def test_what_no_source_has_is_an_error_unless_it_is_allowed_or_not_included(sources: list[str]) -> None:
    one: dict[str, Any] = {"model": sources[1], "prefixes": ["lm"]}
    with pytest.raises(UsageError, match="4 of 8 weights match, not am/hidden/bias, am/hidden/kernel and 2 more;"):
        started(**one)
    expected = {**started(), **below("lm", 10)}
    assert started(**one, allow_partial=True) == started(**one, include="lm") == expected
    assert expected["am/hidden/kernel"] != values(1)["hidden/kernel"].tolist()


def test_a_prefix_of_no_weight_is_an_error(sources: list[str]) -> None:
    message = r"^prefixes 'l' matches no weight; .* the weights are am/hidden/bias, am/hidden/kernel, "
    with pytest.raises(UsageError, match=message):
        started(model=sources, prefixes=["am", "l"])


def test_substitutions_see_the_prefix(sources: list[str]) -> None:
    """So one can be meant for a single source."""
    swapped = started(model=sources, prefixes=["am", "lm"], rename=["^am->x", "^lm->am", "^x->lm"])
    assert swapped == {**below("am", 10), **below("lm", 1)}
