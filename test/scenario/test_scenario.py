"""Scenarios that are declared by their parts: what is made from these, and what is refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

from test.scenario.waves import new
from test.scenario.waves.modelparams import WavesModelParams
from test.scenario.waves.new import Noise, Sure, Waves, WavesData, WavesScenario
from test.scenario.waves.old import OldScenario, SureEvaluator, SureParams, WavesScenarioParams
from test.support.commands import finish_command, start_python
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.pipeline.processor.params import ComposedProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.params.settings import flag_values
from tfaip.scenario.scenario import Scenario
from tfaip.scripts.common.parser import CommandParser
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import CosineDecayParams

# Class names of the old declaration -> of the new one.
RENAMED = {"old:WavesDataParams": "new:WavesData", "old:WavesParams": "new:Waves", "old:NoiseParams": "new:Noise"}
RENAMED |= {
    f"old:Waves{kind}": f"new:WavesScenario.{kind}" for kind in ("ScenarioParams", "PipelineParams", "TrainerParams")
}
RENAMED |= {"old:SureParams": "new:Sure", "old:OldScenario": "new:WavesScenario", "waves.old:": "waves.new:"}


def renamed(text: str) -> str:
    for old, name in RENAMED.items():
        text = text.replace(old, name)
    return text


def parse(scenario: Any, *flags: str) -> Any:
    parser = CommandParser("tfaip-train waves", "Train.")
    parser.add_params("trainer", scenario.trainer_params_cls(), default=scenario.default_trainer_params())
    return parser.parse(flags)


@pytest.mark.parametrize("flags", [[], ["--data.points", "8", "--train.size", "9", "--evaluator.sure", "0.7"]])
def test_both_declarations_give_the_same_json(flags: list[str]) -> None:
    flags = [*flags, "--trainer.output_dir", "run"]
    expected = renamed(parse(OldScenario, *flags).trainer.to_json())
    assert json.loads(parse(WavesScenario, *flags).trainer.to_json()) == json.loads(expected)


def test_defaults_are_those_of_the_parts_and_the_flags() -> None:
    params: Any = WavesScenario.default_trainer_params()
    assert (params.gen.train, params.gen.val) == (Waves(), Waves(seed=2, size=24))
    assert params.scenario.data == WavesData(pre_proc=SequentialProcessorPipelineParams(processors=[Noise(stddev=0.2)]))
    assert type(params.scenario.model) is WavesModelParams
    assert params.scenario.evaluator == Sure()
    assert (params.epochs, params.gen.setup.train.batch_size, params.optimizer.clip_global_norm) == (2, 8, 5.0)
    assert params.learning_rate == CosineDecayParams(lr=0.01, epochs=2)
    params.gen.train.size = 3
    params.scenario.data.pre_proc.processors.append(Noise())
    again: Any = WavesScenario.default_trainer_params()
    assert again.gen.train.size == 48
    assert len(again.scenario.data.pre_proc.processors) == 1


def test_objects_have_data_and_evaluator_of_their_params() -> None:
    params = WavesScenario.default_params()
    params.data.points = 4
    scenario: Any = WavesScenario(params)
    assert scenario.data.input_layer_specs()["wave"].shape == (4,)
    assert isinstance(scenario.new_evaluator(), Sure)
    assert WavesScenario.evaluator_cls() is Sure
    assert not any(name in vars(WavesScenario) for name in ("data", "model", "train", "val", "processors", "defaults"))


def test_params_classes_are_attributes_of_the_scenario() -> None:
    classes = [WavesScenario.ScenarioParams, WavesScenario.TrainerParams, WavesScenario.PipelineParams]
    assert classes[:2] == [WavesScenario.params_cls(), WavesScenario.trainer_params_cls()]
    for kind, cls in zip(["ScenarioParams", "TrainerParams", "PipelineParams"], classes, strict=True):
        assert (cls.__module__, cls.__qualname__) == ("test.scenario.waves.new", f"WavesScenario.{kind}")
        assert cls.__name__ == f"Waves{kind}"
        assert pickle.loads(pickle.dumps(cls)) is cls  # noqa: S301
    assert classes[0].__doc__ == "Data and model of WavesScenario."
    with pytest.raises(TypeError, match="Base does not declare data and model and train"):
        _ = type("Base", (Scenario,), {}).TrainerParams  # type: ignore[attr-defined]


def test_the_stored_name_of_a_made_class_is_read() -> None:
    name = f"{new.__name__}:WavesScenario.TrainerParams"
    read = TrainerParams.from_dict({"__cls__": name, "epochs": 4}, trusted=["test"])
    assert (type(read), read.epochs) == (WavesScenario.TrainerParams, 4)


@pytest.mark.parametrize(
    "name", ["WavesScenario.Nothing", "WavesScenario.run.x", "WavesTrainerParams", "np.TrainerParams"]
)
def test_other_stored_names_with_dots_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="has no class"):
        TrainerParams.from_dict({"__cls__": f"{new.__name__}:{name}"}, trusted=["test"])


READ = """
import pickle, sys
from tfaip.params.stored import load_params
from tfaip.trainer.params import TrainerParams
params = load_params(sys.argv[1], TrainerParams, trusted=["test"])
assert pickle.loads(bytes.fromhex(sys.argv[2])) == params
print(type(params).__qualname__, params.epochs, params.gen.val.seed, params.scenario.data.pre_proc.processors)
print([name for name in ("keras", "tensorflow", "jax") if name in sys.modules])
"""


def test_another_process_reads_and_unpickles_the_params(tmp_path: Path) -> None:
    params: Any = parse(WavesScenario, "--trainer.output_dir", "run", "--trainer.epochs", "7").trainer
    file = tmp_path / "params.json"
    file.write_text(params.to_json())
    result = finish_command(start_python("-c", READ, file, pickle.dumps(params).hex()))
    assert result.rc == 0, result
    first, second = result.stdout.splitlines()
    assert first.startswith("WavesScenario.TrainerParams 7 2 [Noise(")
    assert second == "[]"


def test_a_subclass_changes_single_parts() -> None:
    class More(WavesScenario):
        train = Waves(size=6)
        defaults = {"trainer.epochs": 9, "data.points": 8}

    class Less(More):
        processors = []
        evaluator = None  # type: ignore[assignment]
        val = None  # type: ignore[assignment]

    more: Any = More.default_trainer_params()
    assert (more.gen.train.size, more.gen.val.size, more.epochs, more.learning_rate.lr) == (6, 24, 9, 0.01)
    assert more.scenario.data.points == 8
    assert len(more.scenario.data.pre_proc.processors) == 1
    assert type(more).__qualname__.endswith("<locals>.More.TrainerParams")
    less: Any = Less.default_trainer_params()
    assert (less.gen.train.size, less.gen.val_gen(), less.epochs, less.scenario.data.points) == (6, None, 9, 8)
    assert less.scenario.data.pre_proc.processors == []
    assert type(less.scenario.evaluator) is EvaluatorParams
    assert Less.evaluator_cls() is EvaluatorBase
    assert "val.size" not in flag_values(less)


def test_a_default_of_a_subclass_goes_before_that_of_its_bases_with_and_without_dashes() -> None:
    class First(WavesScenario):
        defaults = {"--trainer.epochs": 7}

    class Second(First):
        defaults = {"trainer.epochs": 8}

    class Third(Second):
        defaults = {"--trainer.epochs": 9}

    made = [cls.default_trainer_params().epochs for cls in (First, Second, Third)]
    assert made == [7, 8, 9]


def test_attributes_of_ones_own_are_no_mistake() -> None:
    class Own(WavesScenario):
        max_length = 3
        _models = ("a", "b")

        @property
        def models(self) -> tuple[str, ...]:
            return self._models

        def vals(self) -> int:
            return self.max_length

    assert Own(Own.default_params()).models == ("a", "b")


def test_a_subclass_that_changes_no_part_has_the_params_classes_of_its_base() -> None:
    class Longer(WavesScenario):
        defaults = {"learning_rate": "Constant"}
        best = ("min", "loss/mean_epoch")

    assert Longer.trainer_params_cls() is WavesScenario.trainer_params_cls()
    assert type(Longer.default_trainer_params().learning_rate).__name__ == "ConstantParams"
    assert Longer(Longer.default_params()).best_logging_settings() == ("min", "loss/mean_epoch")


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


def test_several_generators_for_lav() -> None:
    class Several(WavesScenario):
        lav = [Waves(seed=3), Waves]

    params: Any = parse(Several, "--lav.1.size", "5", "--trainer.output_dir", "run").trainer
    assert params.gen.lav_gen() == [Waves(seed=3), Waves(size=5)]
    assert params.gen.val_gen() == Waves(seed=2, size=24)


def test_list_files_have_the_flags_of_a_list_file_scenario() -> None:
    class Listed(WavesScenario):
        train = val = ListsFileGeneratorParams  # type: ignore[assignment]

    params: Any = parse(Listed, "--train.lists", "a", "--val.lists", "b", "c", "--trainer.output_dir", "run").trainer
    assert params.gen.val_gen().lists == ["b", "c"]
    assert [generator.lists for generator in params.gen.lav_gen()] == [["b"], ["c"]]


def test_an_evaluator_with_params_of_its_own() -> None:
    class Separate(WavesScenario):
        evaluator = SureEvaluator  # type: ignore[assignment]

    class Again(Separate):
        evaluator = Sure(sure=0.2)  # type: ignore[assignment]

    assert Separate.default_params().evaluator == SureParams()
    assert isinstance(Separate(Separate.default_params()).new_evaluator(), SureEvaluator)
    assert isinstance(Again(Again.default_params()).new_evaluator(), Sure)


def test_params_classes_of_ones_own() -> None:
    class Given(WavesScenario):
        train = Waves(size=3)
        processors = [Noise()]
        defaults = {"model.units": 2, "trainer.epochs": 4}
        params_cls = classmethod(lambda cls: WavesScenarioParams)  # type: ignore[assignment]

    params: Any = Given.default_trainer_params()
    assert type(params.scenario) is WavesScenarioParams
    assert (params.scenario.model.units, params.epochs, params.gen.train.size) == (2, 4, 3)

    class Both(Given):
        trainer_params_cls = classmethod(lambda cls: OldScenario.trainer_params_cls())  # type: ignore[assignment]

    assert type(Both.default_trainer_params()) is OldScenario.trainer_params_cls()


def test_overridden_methods_go_before_the_declared_defaults() -> None:
    class Own(WavesScenario):
        defaults = {"data.points": 7}

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

    params = Own.default_trainer_params()
    assert (params.scenario.data.points, params.epochs) == (8, 3)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("data", 3, "Wrong.data is 3, expected a class derived from DataBaseParams, or an object of one"),
        ("data", None, "Wrong.data is None, expected a class derived from DataBaseParams"),
        ("model", WavesData, "Wrong.model is WavesData, expected a class derived from ModelBaseParams"),
        ("train", [Waves()], r"Wrong.train is \[.*\], expected a class derived from DataGeneratorParams"),
        ("lav", [3], "Wrong.lav is 3, expected a class derived from DataGeneratorParams"),
        ("evaluator", dict, "Wrong.evaluator is dict, expected a class derived from EvaluatorParams"),
        ("processors", Noise(), r"Wrong.processors is Noise\(.*\), expected a list of processors"),
        ("processors", [Noise(), Waves()], r"Wrong.processors is Waves\(.*\), expected a class derived from DataProc"),
        ("post_processors", [3], "Wrong.post_processors is 3, expected a class derived from DataProcessorParams"),
        ("processor", [], "Wrong.processor declares nothing; did you mean processors?"),
        ("evalutor", None, "Wrong.evalutor declares nothing; did you mean evaluator?"),
        ("default", {"trainer.epochs": 3}, "Wrong.default declares nothing; did you mean defaults?"),
        ("best", "acc", r"Wrong.best is 'acc', expected the mode and the name of a value, as in \"min lav_l0_cer\""),
        ("best", ("most", "acc"), r"Wrong.best is \('most', 'acc'\), expected the mode"),
        ("defaults", ["a"], r"Wrong.defaults is \['a'\], expected flags with values"),
    ],
)
def test_values_of_another_kind_are_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        type("Wrong", (WavesScenario,), {name: value})


@pytest.mark.parametrize(
    ("defaults", "message"),
    [
        ({"trainer.epoch": 3}, "Wrong.defaults: unknown flag --trainer.epoch; did you mean trainer.epochs?"),
        ({"trainer.epochs": "many"}, "Wrong.defaults: --trainer.epochs: expected int, got 'many'"),
        ({"trainer.epochs": 0}, "Wrong.defaults: epochs is 0, expected at least 1: change --trainer.epochs"),
        ({"data.point": 3}, "Wrong.defaults: unknown flag --data.point; did you mean"),
        (
            {"learning_rate": "CosinDecay"},
            "Wrong.defaults: --learning_rate: no class 'CosinDecay'; did you mean Cosine",
        ),
    ],
)
def test_wrong_defaults_name_the_scenario_and_the_flag(defaults: dict[str, Any], message: str) -> None:
    wrong: Any = type("Wrong", (WavesScenario,), {"defaults": defaults})
    with pytest.raises(UsageError) as error:
        wrong.default_trainer_params()
    assert message.replace("--", "").rstrip("?") in str(error.value).replace("--", "")


def test_a_missing_part_is_named_when_it_is_needed() -> None:
    class Base(Scenario):
        data = WavesData

    with pytest.raises(TypeError, match=r"Base does not declare model and train: write model = ... in its body"):
        Base.default_params()


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
