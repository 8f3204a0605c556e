"""Names of tfaip 1.2: all of them import, each warns once, and nobody pays for them."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Iterator
from typing import Any, Generic

import keras
import pytest

from test.support.commands import finish_command, start_python
from tfaip.compat.names import is_old_module, old_names
from tfaip.imports import LAV, DataGeneratorParams, LAVParams, ModelBase, ModelBaseParams, TrainerPipelineParams

# What programs for tfaip 1.2 import: modules, without `tfaip.`, with their names.
WANTED = """
tfaip:INPUT_PROCESSOR,TARGETS_PROCESSOR,GENERAL_PROCESSOR,DeviceConfigParams,PredictorParams,LAVParams,WarmStartParams
tfaip:LearningRateParams imports:INPUT_PROCESSOR,TARGETS_PROCESSOR,GENERAL_PROCESSOR,DeviceConfigParams,LAVParams
imports:PredictorParams,WarmStartParams,LearningRateParams,Predictor,MultiModelPredictor,MultiModelVoter,LAV,MultiLAV
imports:WarmStarter data.pipeline.processor.dataprocessor:DataProcessorBase,T,SequenceProcessor
data.pipeline.processor.pipeline:DataProcessorPipeline data.pipeline.datapipeline:RawDataPipeline
device.device_config:DeviceConfig model.modelbase:TMP scenario.scenariobase:TScenarioParams,TTrainerPipelineParams
trainer.params:TDataGeneratorTrain,TDataGeneratorVal trainer.scheduler:Constant
trainer.optimizer.optimizers:LAMBOptimizer util:profiling util.multiprocessing.data.worker:DataWorker
util.testing:setup,training,workdir util.enum:StrEnum util.tftyping:AnyTensor util.typing:AnyNumpy,enforce_types
util.tfaipargparse:TFAIPArgumentParser,post_init util.logging:WriteToLogFile,ParseLogFile
util.multiprocessing.parallelmap:parallel_map,tqdm_wrapper
util.multiprocessing.data.parallel_generator:ParallelGenerator util.file.oshelper:ChDir
trainer.callbacks.logger_callback:LoggerCallback trainer.callbacks.tensor_board_callback:TensorBoardCallback
trainer.callbacks.train_params_logger:TrainerCheckpointsCallback util.testing.setup:setup_test_init
util.testing.workdir:workdir_path,call_in_root
util.testing.training:AdditionalTrainerArgs,single_train_iter,resume_training,lav_test_case,warmstart_training_test_case
data.data:TDP scenario.listfile.params:ListsFileGeneratorParams,ListFileTrainerPipelineParams
resource.resource:Resource trainer.scheduler.cosine_decay_params:CosineDecayParams,WarmupCosineDecayParams
trainer.scheduler.learningrate_params:LearningRateParams trainer.optimizer:LAMBOptimizer
util.random:set_global_random_seed lav.callbacks.lav_callback:LAVCallback model.graphbase:RootGraph
data.generators.csvgenerator:CSVGenerator,CSVGeneratorParams
"""


@pytest.fixture
def _forgotten() -> Iterator[None]:
    """Old names are not stored in their modules yet, and old modules are not imported."""

    def forget() -> None:
        for row in old_names():
            module, name = row.place()
            if module in sys.modules:
                vars(sys.modules[module]).pop(name, None)
            if is_old_module(module) is not None and importlib.util.find_spec(module).origin is None:  # type: ignore[union-attr]
                sys.modules.pop(module, None)

    forget()
    yield
    forget()


def imported(module: str, name: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(compile(f"from {module} import {name}", "client.py", "exec"), namespace)  # noqa: S102
    return namespace[name]


@pytest.mark.usefixtures("_forgotten")
def test_each_row_of_the_table(subtests: pytest.Subtests) -> None:
    for row in old_names():
        with subtests.test(row=row):
            (old_module, old_name), (new_module, new_name) = row.place(), row.target()
            if not row.new:
                with pytest.raises(ImportError, match=f"^{re.escape(row.advice())}$"):
                    imported(old_module, old_name)
                continue
            with pytest.warns(DeprecationWarning, match=f"^{re.escape(row.advice())}$") as caught:
                value = imported(old_module, old_name)
            assert imported(old_module, old_name) is value  # without another warning
            assert value is getattr(importlib.import_module(new_module), new_name)
            assert [warning.filename for warning in caught] == ["client.py"]  # the line that imports it
            assert new_name in row.advice() or row.note


def test_what_programs_import_is_in_the_table_or_there(subtests: pytest.Subtests) -> None:
    rows = {row.place() for row in old_names() if row.new}
    for line in WANTED.split():
        module, _, names = line.partition(":")
        module = "tfaip" if module == "tfaip" else f"tfaip.{module}"
        for name in names.split(","):
            with subtests.test(module=module, name=name):
                is_module = is_old_module(f"{module}.{name}") is not None
                assert (module, name) in rows or is_module or hasattr(importlib.import_module(module), name)


def test_other_names_are_errors(subtests: pytest.Subtests) -> None:
    for statement, message in [
        ("from tfaip.trainer.params import TrainerParam", "cannot import name 'TrainerParam'"),
        ("import tfaip.util.strenum", "No module named 'tfaip.util.strenum'"),
        ("from tfaip.util.enum import Enum", "cannot import name 'Enum'"),
        ("import tfaip.util.enum.more", "No module named 'tfaip.util.enum.more'"),
    ]:
        with subtests.test(statement=statement), pytest.raises(ImportError, match=message):
            exec(statement, {})  # noqa: S102


@pytest.mark.slow
def test_nobody_else_pays() -> None:
    """No module of the package is loaded by the toolkit, by help texts or by data workers."""
    code = """
import json, sys
import tfaip, tfaip.imports
from tfaip.imports import *
from tfaip.scripts.train import main
import tfaip.data.pipeline.worker
for flags in (["--help"], ["tfaip.scenario.tutorial.full", "--help", "all"]):
    try:
        main(flags)
    except SystemExit as end:
        assert not end.code
print(json.dumps([name for name in sys.modules if name.startswith(("tfaip.compat", "tfaip.testing"))]))
"""
    result = finish_command(start_python("-W", "error::DeprecationWarning:tfaip", "-c", code))
    assert result.rc == 0, result
    assert json.loads(result.stdout.splitlines()[-1]) == []


@pytest.mark.usefixtures("_forgotten")
@pytest.mark.filterwarnings("ignore:.*declare a TypeVar of your own:DeprecationWarning")
def test_type_variables_declare_classes_as_before() -> None:
    TMP: Any = imported("tfaip.model.modelbase", "TMP")
    TTrain: Any = imported("tfaip.trainer.params", "TDataGeneratorTrain")
    TVal: Any = imported("tfaip.trainer.params", "TDataGeneratorVal")

    class Model(ModelBase[TMP], Generic[TMP]):
        pass

    class Params(ModelBaseParams):
        pass

    class Bound(Model[Params]):
        pass

    class Pipelines(TrainerPipelineParams[TTrain, TVal], Generic[TTrain, TVal]):
        pass

    class Data(DataGeneratorParams):
        pass

    class BoundPipelines(Pipelines[Data, DataGeneratorParams]):
        pass

    assert Bound.params_cls() is Params
    assert type(BoundPipelines().train) is Data


def test_custom_objects_of_a_model() -> None:
    class Doubled(keras.layers.Layer):
        pass

    objects = ModelBase.all_custom_objects()
    assert objects["Doubled"] is Doubled
    assert "Dense" not in objects
    assert LAV.params_cls() is LAVParams
