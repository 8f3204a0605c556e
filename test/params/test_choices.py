"""Short names of classes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from test.params.cli_params import (
    AdamOptimizer,
    CNNGraphParams,
    ConvolutionLayerParams,
    CosineRateParams,
    GraphParams,
    LayerParams,
    MLPGraphParams,
    OptimizerParams,
    RateParams,
    SGDOptimizer,
)
from tfaip.errors import UsageError
from tfaip.params import ParamsBase
from tfaip.params.resolver import ClassChoice


class LearningRateParams(ParamsBase):
    pass


class ExponentialDecayParams(LearningRateParams):
    pass


class TutorialGraphBaseParams(ParamsBase):
    pass


class LSTMGraphParams(TutorialGraphBaseParams):
    pass


def test_accepted_names(subtests: pytest.Subtests) -> None:
    for base, cls, names in [
        (OptimizerParams, AdamOptimizer, ["Adam", "AdamOptimizer", "AdamParams"]),
        (OptimizerParams, SGDOptimizer, ["SGD", "SGDOptimizer"]),
        (RateParams, CosineRateParams, ["Cosine", "CosineRate", "CosineRateParams"]),
        (GraphParams, MLPGraphParams, ["MLP", "MLPGraph", "MLPGraphParams"]),
        (LayerParams, ConvolutionLayerParams, ["conv", "Convolution", "ConvolutionLayerParams"]),
        (LearningRateParams, ExponentialDecayParams, ["ExponentialDecay", "ExponentialDecayParams"]),
        (TutorialGraphBaseParams, LSTMGraphParams, ["LSTM", "LSTMGraph"]),
    ]:
        with subtests.test(base=base):
            choice = ClassChoice(base, {})
            assert choice.name_of(cls) == names[0]
            for name in [*names, f"{cls.__module__}:{cls.__name__}"]:
                assert choice.select(name, "--x") is cls


def test_wrong_names(subtests: pytest.Subtests) -> None:
    for name, message in [
        ("adam", "--x: no class 'adam'; did you mean Adam? (or module:Class)"),
        ("Zzz", "--x: no class 'Zzz'; expected one of: Adam, Optimizer, SGD (or module:Class)"),
        ("no_such:X", "--x: module 'no_such' cannot be imported (ModuleNotFoundError: No module named 'no_such')"),
        ("test.params.cli_params:AdamOptimize", "has no class 'AdamOptimize'; did you mean AdamOptimizer"),
        ("test.params.cli_params:DataParams", "is not a params class derived from OptimizerParams"),
        (":X", "--x: expected the name of a class or module:Class, got ':X'"),
    ]:
        with subtests.test(name=name):
            with pytest.raises(UsageError) as error:
                ClassChoice(OptimizerParams, {}).select(name, "--x")
            assert message in str(error.value)
            assert "\n" not in str(error.value)


def test_enforced_choices() -> None:
    choice = ClassChoice(GraphParams, {"choices": [MLPGraphParams], "enforce_choices": True})
    assert choice.names() == ["MLP"]
    assert choice.select("test.params.cli_params:MLPGraphParams", "--x") is MLPGraphParams
    with pytest.raises(UsageError, match="CNNGraphParams is not allowed here; expected one of: MLP"):
        choice.select("test.params.cli_params:CNNGraphParams", "--x")
    with pytest.raises(UsageError, match="no class 'CNN'; expected one of: MLP$"):
        choice.select("CNN", "--x")


def test_listed_choices_are_not_the_only_ones() -> None:
    choice = ClassChoice(GraphParams, {"choices": [MLPGraphParams]}, also=[GraphParams])
    assert choice.names() == ["MLP", "Graph"]
    assert choice.select("test.params.cli_params:CNNGraphParams", "--x") is CNNGraphParams
    assert choice.name_of(CNNGraphParams) == "test.params.cli_params:CNNGraphParams"


def test_subclass_check_can_be_switched_off() -> None:
    choice = ClassChoice(GraphParams, {"disable_subclass_check": True})
    assert choice.select("test.params.cli_params:AdamOptimizer", "--x") is AdamOptimizer


def test_equal_names_must_be_written_completely() -> None:
    clone: Any = type("LSTMGraphParams", (ParamsBase,), {"__module__": "elsewhere"})
    choice = ClassChoice(TutorialGraphBaseParams, {"choices": [LSTMGraphParams, clone]})
    for name in ("LSTM", "LSTMGraphParams"):
        with pytest.raises(
            UsageError, match=f"--x: {name} may be any of .*choices:LSTMGraphParams, elsewhere:LSTMGraph"
        ):
            choice.select(name, "--x")
    assert choice.name_of(LSTMGraphParams) == "test.params.test_choices:LSTMGraphParams"


class NetParams(ParamsBase):
    pass


class MLPNetParams(NetParams):
    pass


class MLPParams(NetParams):
    pass


def test_a_class_defined_again_replaces_the_former_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("cells")
    monkeypatch.setitem(sys.modules, "cells", module)
    cell = "class TwiceRate(RateParams):\n    pass"
    for _ in range(2):
        module.RateParams = RateParams
        exec(cell, vars(module))  # noqa: S102 (the text is above)
    assert ClassChoice(RateParams, {}).select("Twice", "--rate") is module.TwiceRate
    monkeypatch.delitem(sys.modules, "cells")
    with pytest.raises(UsageError, match="--rate: no class 'Twice'"):
        ClassChoice(RateParams, {}).select("Twice", "--rate")


def test_a_class_name_is_clear_whatever_the_short_names_are() -> None:
    choice = ClassChoice(NetParams, {})
    assert choice.select("MLPParams", "--x") is MLPParams
    assert choice.select("MLPNet", "--x") is MLPNetParams
    assert choice.name_of(MLPParams).endswith("test_choices:MLPParams")


def test_a_module_that_fails_shows_its_own_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_params.py").write_text("raise RuntimeError('boom\\nsecond line')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"'broken_params' cannot be imported \(RuntimeError: boom second line\)"):
        ClassChoice(OptimizerParams, {}).select("broken_params:X", "--x")
    assert "broken_params" not in sys.modules
