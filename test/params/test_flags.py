"""Values of a params tree by their flags, in Python."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.params.cli_params import (
    ConvolutionLayerParams,
    DenseLayerParams,
    Mode,
    RangeParams,
    RunParams,
    SGDOptimizer,
)
from test.params.parsing import parse
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import UsageError
from tfaip.params import ParamsBase, pai_meta
from tfaip.params.fields import limits
from tfaip.params.settings import RootParams, flag_values, get_flag, set_flags
from tfaip.params.stored import flat_flags
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.params import TrainerParams


class TreeParams(RunParams):
    """The tree of the tests of the command line, with the name that it has there."""

    flag_root = "run"


def test_a_flag_means_the_same_as_on_the_command_line(subtests: pytest.Subtests) -> None:
    for flag, value, line in [
        ("run.epochs", 5, "--run.epochs 5"),
        ("run.epochs", np.int64(5), "--run.epochs 5"),
        ("run.mode", Mode.SLOW, "--run.mode slow"),
        ("run.gpus", [0, 1], "--run.gpus 0 1"),
        ("run.gpus", "0 1", "--run.gpus 0 1"),
        ("run.weights", "a=1 b=-2", "--run.weights a=1 b=-2"),
        ("run.names", {"x", "y"}, "--run.names x y"),
        ("run/slashed.low", 0.5, "--run/slashed.low .5"),
        ("optimizer", SGDOptimizer, "--optimizer SGD"),
        ("run.graph.layers", "Dense conv", "--run.graph.layers Dense conv"),
        ("run.graph.layers.0.units", 3, "--run.graph.layers.0.units 3"),
        ("data.size", (7, 8), "--data.size 7 8"),
        ("train.batch_size", 2, "--train.batch_size 2"),
    ]:
        with subtests.test(flag=flag):
            start = RunParams(output_dir="out", gpus=[7])
            tree: Any = TreeParams(output_dir="out", gpus=[7])
            set_flags(tree, {flag: value})
            expected = parse(line, start)
            for name in vars(expected):
                assert getattr(tree, name) == getattr(expected, name), name
            assert expected != start


def test_values_are_read_by_flags() -> None:
    tree: Any = TreeParams()
    assert get_flag(tree, "run.epochs") == 100
    assert get_flag(tree, "--overwrite") is False
    assert get_flag(tree, "optimizer") is tree.optimizer
    assert get_flag(tree, "run.graph.layers.0.units") == 4
    values = flag_values(tree)
    assert values["train.batch_size"] == 16
    assert "optimizer" not in values
    assert not any("secret" in flag for flag in values)


def test_several_flags_choose_a_class_and_its_fields() -> None:
    tree: Any = TreeParams()
    kept = tree.optimizer
    set_flags(tree, {"optimizer.beta_1": 0.5, "run.epochs": 2})
    assert tree.optimizer is kept
    assert (kept.beta_1, tree.epochs) == (0.5, 2)
    set_flags(tree, {"optimizer": "SGD", "optimizer.momentum": "0.25"})
    assert tree.optimizer == SGDOptimizer(momentum=0.25)


def test_objects_are_taken_as_they_are() -> None:
    tree: Any = TreeParams()
    optimizer, layers = SGDOptimizer(momentum=0.5), [DenseLayerParams(units=1), ConvolutionLayerParams()]
    set_flags(tree, {"optimizer": optimizer, "optimizer.momentum": 0.75, "run.graph.layers": layers})
    assert tree.optimizer is optimizer
    assert optimizer.momentum == 0.75
    assert [id(layer) for layer in tree.graph.layers] == [id(layer) for layer in layers]
    with pytest.raises(UsageError, match=r"^--optimizer: expected OptimizerParams, got RangeParams$"):
        set_flags(tree, {"optimizer": RangeParams(0.5)})


def test_errors_are_those_of_the_command_line(subtests: pytest.Subtests) -> None:
    for values, line in [
        ({"run.epochs": "many"}, "--run.epochs many"),
        ({"run.epoch": 1}, "--run.epoch 1"),
        ({"optimizer.momentum": 1.0}, "--optimizer.momentum 1.0"),
        ({"run.size": "xl"}, "--run.size xl"),
    ]:
        with subtests.test(values=values):
            tree: Any = TreeParams()
            before = tree.to_dict()
            with pytest.raises(UsageError) as expected:
                parse(line)
            with pytest.raises(UsageError) as error:
                set_flags(tree, {"run.mode": Mode.SLOW, **values})
            assert str(error.value) == str(expected.value)
            assert tree.to_dict() == before
            if "run.epoch" in values:
                with pytest.raises(UsageError) as error:
                    get_flag(tree, "run.epoch")
                assert str(error.value) == str(expected.value)


def test_a_typed_value_of_another_kind_is_refused() -> None:
    with pytest.raises(UsageError, match=r"^--run\.epochs: expected int, got 1\.5"):
        set_flags(TreeParams(), {"run.epochs": 1.5})
    with pytest.raises(UsageError, match=r"^--run\.epochs is a builtins\.object"):
        set_flags(TreeParams(), {"run.epochs": object()})
    with pytest.raises(TypeError, match="expected the name of a flag, got 3"):
        get_flag(TreeParams(), 3)  # type: ignore[arg-type]


class ChildParams(ParamsBase):
    size: int = field(default=1, metadata=limits(low=1))
    path: str = ""
    shared: int = 0


class HolderParams(RootParams):
    child: ChildParams = field(default_factory=ChildParams)
    near: ChildParams = field(default_factory=ChildParams, metadata=pai_meta(mode="ssnake"))
    array: Any = None
    size: int = 3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.child.shared = self.size


def test_a_tree_without_a_command_has_flags_without_a_root() -> None:
    params = HolderParams(array=np.zeros(3))
    array = params.array
    params["child.size"] = 4
    params["near.path"] = Path("a/b")
    params["size"] = "7"
    assert (params.child.size, params.near.path, params.child.shared) == (4, "a/b", 7)
    assert params["child.shared"] == 7
    assert params.array is array
    child = ChildParams()
    set_flags(child, {"size": 2})
    assert get_flag(child, "size") == 2


def test_limits_name_the_flag_and_everything_stays_as_it_was() -> None:
    params = HolderParams()
    with pytest.raises(UsageError, match=r"^size is 0, expected at least 1: change --child\.size$"):
        params.set_flags({"size": 9, "child.size": 0})
    assert (params.size, params.child.size, params.child.shared) == (3, 1, 3)


def test_the_params_of_a_training_have_the_flags_of_the_command() -> None:
    params = TutorialScenario.default_trainer_params()
    params["train.num_processes"] = 2
    params.set_flags(
        {"trainer.epochs": 3, "learning_rate": "Constant", "model.graph": "MLP", "model.graph.units": "9 9"}
    )
    assert params.gen.setup.train.num_processes == params["train.num_processes"] == 2
    assert params.learning_rate.epochs == 3
    assert params.scenario.model.graph.units == [9, 9]
    assert params.scenario["data.dataset"] == params.scenario.data.dataset
    with pytest.raises(UsageError, match=r"^epochs is 0, expected at least 1: change --trainer\.epochs$"):
        params["trainer.epochs"] = 0
    assert params.epochs == 3


def test_stored_params_are_named_by_flags_without_their_classes() -> None:
    """Nodes in lists and dicts, values of dicts, classes that are not imported, and what has no flag."""
    stored = {
        "__cls__": "mine:Trainer",
        "epochs": 3,
        "loss_weights": {"ctc": 0.5},
        "optimizer": {"__cls__": "mine:Own", "own": {"__cls__": "mine:Part", "rate": 1}},
        "weight_penalties": [{"__cls__": "mine:Penalty", "l2": 0.1}],
        "schedules": [],
        "stages": {"small": {"__cls__": "mine:Stage", "epochs": 1}},
        "scenario": {
            "__cls__": "mine:Params",
            "scenario_id": "mine:Scenario",
            "print_eval_limit": 1,
            "model": {"__cls__": "mine:Model", "layers": [{"__cls__": "mine:Dense", "units": 8}], "sizes": {"a": 1}},
        },
        "gen": {
            "__cls__": "mine:Pipelines",
            "setup": {"train": {"batch_size": 2}},
            "train": {"__cls__": "mine:Generator", "files": ["x"], "batch_size": 7},
            "more": 4,
        },
    }
    declared = TrainerParams[ScenarioBaseParams, TrainerPipelineParams[DataGeneratorParams, DataGeneratorParams]]
    assert flat_flags(stored, declared, "trainer") == {
        "__cls__": "mine:Trainer",
        "trainer.epochs": 3,
        "trainer.loss_weights.ctc": 0.5,
        "optimizer": "mine:Own",
        "optimizer.own": "mine:Part",
        "optimizer.own.rate": 1,
        "weight_penalties.0": "mine:Penalty",
        "weight_penalties.0.l2": 0.1,
        "schedules": [],
        "stages.small": "mine:Stage",
        "stages.small.epochs": 1,
        "scenario.__cls__": "mine:Params",
        "scenario.scenario_id": "mine:Scenario",
        "scenario.print_eval_limit": 1,
        "scenario.model.__cls__": "mine:Model",
        "model.layers.0": "mine:Dense",
        "model.layers.0.units": 8,
        "model.sizes.a": 1,
        "gen.__cls__": "mine:Pipelines",
        "train.batch_size": 2,
        "train": "mine:Generator",
        "train.files": ["x"],
        "gen.train.batch_size": 7,  # the other one has the flag
        "gen.more": 4,
    }
