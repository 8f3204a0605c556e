"""Short names of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from test.params import cli_params as p
from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.resolver import ClassChoice


class LearningRateParams(ParamsBase): ...


class ExponentialDecayParams(LearningRateParams): ...


class TutorialGraphBaseParams(ParamsBase): ...


class LSTMGraphParams(TutorialGraphBaseParams): ...


class NetParams(ParamsBase): ...


class MLPNetParams(NetParams): ...


class MLPParams(NetParams): ...


Clone: Any = type("LSTMGraphParams", (ParamsBase,), {"__module__": "elsewhere"})
OWN, ALL = "test.params.test_choices:", "test.params.cli_params:"
ENFORCED = {"choices": [p.MLPGraphParams], "enforce_choices": True}


@pytest.mark.parametrize(
    ("base", "meta", "cls", "names"),
    [
        (p.OptimizerParams, {}, p.AdamOptimizer, ["Adam", "AdamOptimizer", "AdamParams"]),
        (p.OptimizerParams, {}, p.SGDOptimizer, ["SGD", "SGDOptimizer"]),
        (p.RateParams, {}, p.CosineRateParams, ["Cosine", "CosineRate", "CosineRateParams"]),
        (p.GraphParams, {}, p.MLPGraphParams, ["MLP", "MLPGraph", "MLPGraphParams"]),
        (p.LayerParams, {}, p.ConvolutionLayerParams, ["conv", "Convolution", "ConvolutionLayerParams"]),
        (LearningRateParams, {}, ExponentialDecayParams, ["ExponentialDecay", "ExponentialDecayParams"]),
        (TutorialGraphBaseParams, {}, LSTMGraphParams, ["LSTM", "LSTMGraph"]),
        # The name of a class is clear whatever the short names are.
        (NetParams, {}, MLPParams, [f"{OWN}MLPParams", "MLPParams"]),
        (NetParams, {}, MLPNetParams, [f"{OWN}MLPNetParams", "MLPNet"]),
        # Listed choices are not the only ones, unless they are enforced.
        (p.GraphParams, {"choices": [p.MLPGraphParams]}, p.CNNGraphParams, [f"{ALL}CNNGraphParams"]),
        (p.GraphParams, ENFORCED, p.MLPGraphParams, ["MLP"]),
        (TutorialGraphBaseParams, {"choices": [LSTMGraphParams, Clone]}, LSTMGraphParams, [f"{OWN}LSTMGraphParams"]),
        (p.GraphParams, {"disable_subclass_check": True}, p.AdamOptimizer, [f"{ALL}AdamOptimizer"]),
    ],
)
def test_accepted_names(base: type, meta: dict[str, Any], cls: type, names: list[str]) -> None:
    choice = ClassChoice(base, meta)
    assert choice.name_of(cls) == names[0]
    for name in [*names, f"{cls.__module__}:{cls.__name__}"]:
        assert choice.select(name, "--x") is cls


@pytest.mark.parametrize(
    ("base", "meta", "name", "message"),
    [
        (p.OptimizerParams, {}, "adam", "no class 'adam'; did you mean Adam? (or module:Class)"),
        (p.OptimizerParams, {}, "Zzz", "no class 'Zzz'; expected one of: Adam, Optimizer, SGD (or module:Class)"),
        (p.OptimizerParams, {}, "no_such:X", "module 'no_such' cannot be imported (ModuleNotFoundError: No module na"),
        (p.OptimizerParams, {}, f"{ALL}AdamOptimize", "has no class 'AdamOptimize'; did you mean AdamOptimizer"),
        (p.OptimizerParams, {}, f"{ALL}DataParams", "is not a params class derived from OptimizerParams"),
        (p.OptimizerParams, {}, ":X", "expected the name of a class or module:Class, got ':X'"),
        (p.OptimizerParams, {}, "broken_params:X", "'broken_params' cannot be imported (RuntimeError: boom second l"),
        (p.GraphParams, ENFORCED, f"{ALL}CNNGraphParams", "CNNGraphParams is not allowed here; expected one of: MLP"),
        (p.GraphParams, ENFORCED, "CNN", "no class 'CNN'; expected one of: MLP"),
        (TutorialGraphBaseParams, {"choices": [LSTMGraphParams, Clone]}, "LSTM", ": LSTM may be any of test.params.te"),
    ],
)
def test_wrong_names(
    base: type, meta: dict[str, Any], name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_params.py").write_text("raise RuntimeError('boom\\nsecond line')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError) as error:
        ClassChoice(base, meta).select(name, "--x")
    assert str(error.value).startswith("--x: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert "broken_params" not in sys.modules


def test_listed_names() -> None:
    assert ClassChoice(p.GraphParams, ENFORCED).names() == ["MLP"]
    also = ClassChoice(p.GraphParams, {"choices": [p.MLPGraphParams]}, also=[p.GraphParams])
    assert also.names() == ["MLP", "Graph"]


def test_a_class_defined_again_replaces_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("cells")
    monkeypatch.setitem(sys.modules, "cells", module)
    for _ in range(2):
        module.RateParams = p.RateParams
        exec("class TwiceRate(RateParams): ...", vars(module))  # noqa: S102
    assert ClassChoice(p.RateParams, {}).select("Twice", "--rate") is module.TwiceRate
    monkeypatch.delitem(sys.modules, "cells")
    with pytest.raises(UsageError, match="--rate: no class 'Twice'"):
        ClassChoice(p.RateParams, {}).select("Twice", "--rate")
