"""Scenarios that are declared by their parts: what is made from these, and what is refused."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from test.scenario.waves import new
from test.scenario.waves.new import Noise, Sure, Waves, WavesData, WavesModelParams, WavesScenario
from test.support.commands import finish_command, start_python
from tfaip.components.pipelineparams import TrainerPipelineParams
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.pipeline.processor.params import ComposedProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.params.settings import flag_values
from tfaip.scenario.scenario import Scenario
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.scripts.common.parser import CommandParser
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import CosineDecayParams

NEW = new.__name__


class LongScenarioParams(ScenarioBaseParams[WavesData, WavesModelParams]):
    pass


class LongPipelineParams(TrainerPipelineParams[Waves, Waves]):
    pass


class LongTrainerParams(TrainerParams[LongScenarioParams, LongPipelineParams]):
    pass


class LongScenario(ScenarioBase[LongScenarioParams, LongTrainerParams]):
    """The same in the long form."""

    @classmethod
    def default_params(cls) -> LongScenarioParams:
        params = super().default_params()
        params.evaluator = Sure()
        params.data.pre_proc = SequentialProcessorPipelineParams(processors=[Noise(stddev=0.2)])
        return params

    @classmethod
    def default_trainer_params(cls) -> LongTrainerParams:
        params = super().default_trainer_params()
        params.epochs, params.gen.setup.train.batch_size, params.gen.val = 2, 8, Waves(seed=2, size=24)
        params.learning_rate, params.optimizer.clip_global_norm = CosineDecayParams(lr=0.01), 5.0
        return params


def parse(scenario: Any, *flags: str) -> Any:
    parser = CommandParser("tfaip-train waves", "Train.")
    parser.add_params("trainer", scenario.trainer_params_cls(), default=scenario.default_trainer_params())
    return parser.parse([*flags, "--trainer.output_dir", "run"]).trainer


@pytest.mark.parametrize("flags", [[], ["--data.points", "8", "--train.size", "9", "--evaluator.sure", "0.7"]])
def test_both_declarations_give_the_same_json(flags: list[str]) -> None:
    text = parse(LongScenario, *flags).to_json().replace(f"{__name__}:LongScenario", f"{NEW}:WavesScenario")
    expected = text.replace("WavesScenarioParams", "WavesScenario.ScenarioParams")
    for kind in ("PipelineParams", "TrainerParams"):
        expected = expected.replace(f"{__name__}:Long{kind}", f"{NEW}:WavesScenario.{kind}")
    assert json.loads(parse(WavesScenario, *flags).to_json()) == json.loads(expected)


def test_objects_have_the_parts_that_their_params_name() -> None:
    params = WavesScenario.default_params()
    params.data.points = 4
    scenario: Any = WavesScenario(params)
    assert scenario.data.input_layer_specs()["wave"].shape == (4,)
    assert (scenario.model.points, scenario.data.params) == (4, params.data)
    assert isinstance(scenario.new_evaluator(), Sure)
    assert WavesScenario.evaluator_cls() is Sure
    assert not any(name in vars(WavesScenario) for name in ("data", "model", "train", "val", "processors", "defaults"))
    trainer_params: Any = WavesScenario.default_trainer_params()
    trainer_params.gen.train.size = 3
    trainer_params.scenario.data.pre_proc.processors.append(Noise())
    again: Any = WavesScenario.default_trainer_params()
    assert (again.gen.train.size, len(again.scenario.data.pre_proc.processors)) == (48, 1)


def test_params_classes_are_attributes_of_the_scenario() -> None:
    classes = [WavesScenario.ScenarioParams, WavesScenario.TrainerParams, WavesScenario.PipelineParams]
    assert classes[:2] == [WavesScenario.params_cls(), WavesScenario.trainer_params_cls()]
    for kind, cls in zip(["ScenarioParams", "TrainerParams", "PipelineParams"], classes, strict=True):
        assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301
        assert (cls.__module__, cls.__qualname__, cls.__name__) == (NEW, f"WavesScenario.{kind}", f"Waves{kind}")
    assert classes[0].__doc__ == "Data and model of WavesScenario."
    for name, missing in (("TrainerParams", "data and model and train"), ("ScenarioParams", "model and train")):
        body = {} if missing.startswith("data") else {"data": WavesData}
        with pytest.raises(TypeError, match=f"Base does not declare {missing}: write {missing.split()[0]} = ... in"):
            getattr(type("Base", (Scenario,), body), name)


def test_the_stored_name_of_a_made_class_is_read() -> None:
    stored = {"__cls__": f"{NEW}:WavesScenario.TrainerParams", "epochs": 4}
    read = TrainerParams.from_dict(stored, trusted=["test"])
    assert (type(read), read.epochs) == (WavesScenario.TrainerParams, 4)
    for name in ("WavesScenario.Nothing", "np.TrainerParams"):
        with pytest.raises(UsageError, match="expected a class that module"):
            TrainerParams.from_dict({"__cls__": f"{NEW}:{name}"}, trusted=["test"])


def test_a_subclass_changes_single_parts_and_its_defaults_go_before_those_of_its_bases() -> None:
    class More(WavesScenario):
        train = Waves(size=6)
        defaults = {"trainer.epochs": 9, "data.points": 8}

    class Less(More):
        processors = []
        evaluator = None  # type: ignore[assignment]
        val = None  # type: ignore[assignment]
        defaults = {"trainer.epochs": 8}

    more: Any = More.default_trainer_params()
    assert (more.gen.train.size, more.gen.val.size, more.epochs, more.learning_rate.lr) == (6, 24, 9, 0.01)
    assert more.scenario.data.points == 8
    assert len(more.scenario.data.pre_proc.processors) == 1
    assert type(more).__qualname__.endswith("<locals>.More.TrainerParams")
    less: Any = Less.default_trainer_params()
    assert (less.gen.train.size, less.gen.val_gen(), less.epochs, less.scenario.data.points) == (6, None, 8, 8)
    assert less.scenario.data.pre_proc.processors == []
    assert type(less.scenario.evaluator) is EvaluatorParams
    assert Less.evaluator_cls() is EvaluatorBase
    assert "val.size" not in flag_values(less)


def test_a_subclass_that_changes_no_part_has_the_params_classes_of_its_base() -> None:
    class Longer(WavesScenario):
        defaults = {"learning_rate": "Constant"}
        best = "min loss/mean_epoch"
        max_length = 3  # attributes and methods of its own are no mistake

        def vals(self) -> int:
            return self.max_length

    assert Longer.trainer_params_cls() is WavesScenario.trainer_params_cls()
    assert type(Longer.default_trainer_params().learning_rate).__name__ == "ConstantParams"
    scenario = Longer(Longer.default_params())
    assert (scenario.best_logging_settings(), scenario.vals()) == (("min", "loss/mean_epoch"), 3)


def test_classes_and_objects_of_all_parts() -> None:
    class Objects(Scenario):
        data, model, evaluator = WavesData(points=5), WavesModelParams(units=3), Sure(sure=0.1)
        train, lav = Waves, Waves(size=2)
        processors = ComposedProcessorPipelineParams(
            pipelines=[SequentialProcessorPipelineParams(processors=[Noise()])]
        )
        post_processors = [Noise]

    params: Any = Objects.default_trainer_params()
    scenario = params.scenario
    assert (scenario.data.points, scenario.model.units, scenario.evaluator.sure) == (5, 3, 0.1)
    assert scenario.data.pre_proc.flatten_processors() == scenario.data.post_proc.flatten_processors() == [Noise()]
    assert (params.gen.train_gen(), params.gen.val_gen(), params.gen.lav_gen()) == (Waves(), None, [Waves(size=2)])
    assert flag_values(params)["lav.size"] == 2


def test_several_generators_for_lav_and_list_files() -> None:
    class Several(WavesScenario):
        lav = [Waves(seed=3), Waves]

    params: Any = parse(Several, "--lav.1.size", "5")
    assert params.gen.lav_gen() == [Waves(seed=3), Waves(size=5)]
    assert params.gen.val_gen() == Waves(seed=2, size=24)

    class Listed(WavesScenario):  # with the flags of a scenario of list files
        train = val = ListsFileGeneratorParams  # type: ignore[assignment]

    params = parse(Listed, "--train.lists", "a", "--val.lists", "b", "c")
    assert params.gen.val_gen().lists == ["b", "c"]
    assert [generator.lists for generator in params.gen.lav_gen()] == [["b"], ["c"]]


def test_methods_and_params_classes_of_ones_own_go_before_what_is_declared() -> None:
    class Given(WavesScenario):
        train = Waves(size=3)
        defaults = {"model.units": 2, "trainer.epochs": 4, "data.points": 7}
        params_cls = classmethod(lambda cls: LongScenarioParams)  # type: ignore[assignment]

        @classmethod
        def default_params(cls) -> Any:
            params = super().default_params()
            params.data.points += 1
            return params

        @classmethod
        def default_trainer_params(cls) -> Any:
            params = super().default_trainer_params()
            params.epochs += 1
            return params

    params: Any = Given.default_trainer_params()
    assert type(params.scenario) is LongScenarioParams
    assert (params.scenario.model.units, params.scenario.data.points) == (2, 8)
    assert (params.epochs, params.gen.train.size) == (5, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("data", 3, "Wrong.data is 3, expected a class derived from DataBaseParams, or an object of one"),
        ("model", WavesData, "Wrong.model is WavesData, expected a class derived from ModelBaseParams"),
        ("lav", [3], "Wrong.lav is 3, expected a class derived from DataGeneratorParams"),
        ("evaluator", dict, "Wrong.evaluator is dict, expected a class derived from EvaluatorParams"),
        ("processors", Noise(), r"Wrong.processors is Noise\(.*\), expected a list of processors"),
        ("evalutor", None, "Wrong.evalutor declares nothing; did you mean evaluator?"),
        ("best", "acc", r"Wrong.best is 'acc', expected the mode and the name of a value, as in \"min lav_l0_cer\""),
    ],
)
def test_values_of_another_kind_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Wrong", (WavesScenario,), {name: value})


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"trainer.epoch": 3}, "Wrong.defaults: unknown flag --?trainer.epoch; did you mean .*trainer.epochs"),
        ({"trainer.epochs": "many"}, "Wrong.defaults: --trainer.epochs: expected int, got 'many'"),
    ],
)
def test_wrong_defaults_name_the_scenario_and_the_flag(defaults: dict[str, Any], message: str) -> None:
    wrong: Any = type("Wrong", (WavesScenario,), {"defaults": defaults})
    with pytest.raises(UsageError, match=message):
        wrong.default_trainer_params()


NOTEBOOK = """
from test.scenario.waves.new import *
class CellParams(WavesModelParams, cls="CellModel"): ...
class CellModel: ...
class CellScenario(WavesScenario):
    model, train = CellParams, Waves(size=4)
params = CellScenario.default_trainer_params()
print(params.gen.train.size, CellScenario.model_cls() is CellModel)
params.to_json()
"""


def test_a_scenario_in_a_notebook_cannot_be_stored() -> None:
    result = finish_command(start_python("-c", NOTEBOOK))
    assert result.stdout == "4 True\n"
    assert result.stderr.splitlines()[-1] == (
        "TypeError: CellScenario cannot be stored: no other program can import a class of a notebook, "
        "move it to a module"
    )
