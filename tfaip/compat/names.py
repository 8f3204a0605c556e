"""The one table of old names: what they are today, what to write instead, and since when.

A row is one name. Old names are found by `tfaip.util.oldnames`, in modules that still exist and in those that do not.
"""

from __future__ import annotations

import importlib
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

PACKAGE = "tfaip"


@dataclass(frozen=True)
class OldName:
    """A name of tfaip 1.2.

    Names are written as ".package.module:name" below `tfaip`, ":name" in `tfaip` itself, and "package.module:name"
    elsewhere.

    Args:
        old: where it was.
        new: what it is today; without a colon: in the same module.
        note: what to write instead; empty: the new name.
        since: the version that has the new name.
    """

    old: str
    new: str
    note: str = ""
    since: str = "2.0"

    def place(self) -> tuple[str, str]:
        """Return module and name of the old name."""
        return _split(self.old)

    def target(self) -> tuple[str, str]:
        """Return module and name of what it is today."""
        return _split(self.new) if ":" in self.new else (self.place()[0], self.new)

    def advice(self) -> str:
        """Return the text of the warning."""
        note = self.note or f"use {'.'.join(self.target())}"
        return f"{'.'.join(self.place())} is deprecated since tfaip {self.since}: {note}"


def _split(name: str) -> tuple[str, str]:
    module, _, attribute = name.partition(":")
    if not module or module.startswith("."):
        module = PACKAGE + module
    return module, attribute


_OWN_TYPE = "declare a TypeVar of your own"
_CALLBACK = "the trainer does this itself; callbacks of your own derive from keras.callbacks.Callback"
_PARALLEL = "use concurrent.futures, or let the processors of a data pipeline work in its worker processes"
_PIPELINE = "use data.create_pipeline(params, RawDataGeneratorParams(samples))"
_SEQUENCE = "list the processors in SequentialProcessorPipelineParams; create(...).apply(samples) runs them"
_DEVICE = "set the device of TrainerParams, LAVParams or PredictorParams"
_HISTORY = "read history.json of the run, or Trainer.history"
_LOG = "use logging.FileHandler; a run with an output_dir writes train.log itself"

# fmt: off
OLD_NAMES = (
    OldName(":DeviceConfigParams", ".imports:DeviceConfigParams"),
    OldName(":GENERAL_PROCESSOR", ".imports:GENERAL_PROCESSOR"),
    OldName(":INPUT_PROCESSOR", ".imports:INPUT_PROCESSOR"),
    OldName(":LAVParams", ".imports:LAVParams"),
    OldName(":LearningRateParams", ".imports:LearningRateParams"),
    OldName(":PredictorParams", ".imports:PredictorParams"),
    OldName(":TARGETS_PROCESSOR", ".imports:TARGETS_PROCESSOR"),
    OldName(":WarmStartParams", ".imports:WarmStartParams"),
    OldName(".data.pipeline.datapipeline:RawDataPipeline", ".compat.samples:RawDataPipeline", _PIPELINE),
    OldName(".data.pipeline.processor.dataprocessor:DataProcessorBase", "DataProcessor"),
    OldName(".data.pipeline.processor.dataprocessor:SequenceProcessor", ".compat.samples:SequenceProcessor", _SEQUENCE),
    OldName(".data.pipeline.processor.dataprocessor:T", "P", _OWN_TYPE),
    OldName(".data.pipeline.processor.pipeline:DataProcessorPipeline", "ProcessorPipeline"),
    OldName(".device.device_config:DeviceConfig", ".compat.devices:DeviceConfig", _DEVICE),
    OldName(".model.modelbase:TMP", "P", _OWN_TYPE),
    OldName(".scenario.scenariobase:TScenarioParams", "SP", _OWN_TYPE),
    OldName(".scenario.scenariobase:TTrainerPipelineParams", "TP", _OWN_TYPE),
    OldName(".trainer.callbacks.logger_callback:LoggerCallback", ".compat.callbacks:LoggerCallback", _CALLBACK),
    OldName(".trainer.callbacks.tensor_board_callback:TensorBoardCallback", ".compat.callbacks:TensorBoardCallback", _CALLBACK),  # noqa: E501
    OldName(".trainer.callbacks.train_params_logger:TrainerCheckpointsCallback", ".compat.callbacks:TrainerCheckpointsCallback", _CALLBACK),  # noqa: E501
    OldName(".trainer.optimizer.optimizers:LAMBOptimizer", "LambOptimizer"),
    OldName(".trainer.params:TDataGeneratorTrain", ".components.pipelineparams:TTrain", _OWN_TYPE),
    OldName(".trainer.params:TDataGeneratorVal", ".components.pipelineparams:TVal", _OWN_TYPE),
    OldName(".trainer.scheduler:Constant", "ConstantParams"),
    OldName(".util.enum:StrEnum", "enum:StrEnum"),
    OldName(".util.file.oshelper:ChDir", "contextlib:chdir"),
    OldName(".util.logging:ParseLogFile", ".compat.logfiles:ParseLogFile", _HISTORY),
    OldName(".util.logging:WriteToLogFile", ".compat.logfiles:WriteToLogFile", _LOG),
    OldName(".util.multiprocessing.data.parallel_generator:ParallelGenerator", ".compat.parallel:ParallelGenerator", _PARALLEL),  # noqa: E501
    OldName(".util.multiprocessing.data.worker:DataWorker", ".compat.parallel:DataWorker", _PARALLEL),
    OldName(".util.multiprocessing.parallelmap:parallel_map", ".compat.parallel:parallel_map", _PARALLEL),
    OldName(".util.multiprocessing.parallelmap:tqdm_wrapper", ".compat.parallel:tqdm_wrapper", "use rich.progress.track"),  # noqa: E501
    OldName(".util.profiling:MeasureTime", ".compat.profiling:MeasureTime", "use time.perf_counter"),
    OldName(".util.profiling:profile", ".compat.profiling:profile", "use cProfile.Profile"),
    OldName(".util.testing:ScenarioTests", ".testing:ScenarioTests"),
    OldName(".util.testing.setup:small_trainer_params", ".testing:small_trainer_params"),
    OldName(".util.testing.training:ScenarioTests", ".testing:ScenarioTests"),
    OldName(".util.testing.workdir:SmallTraining", ".testing:SmallTraining"),
    OldName(".util.tfaipargparse:post_init", ".params:post_init"),
    OldName(".util.tftyping:AnyTensor", ".util.typing:Tensor"),
    OldName(".util.typing:AnyNumpy", "numpy:ndarray"),
)
# fmt: on


@cache
def _rows() -> dict[tuple[str, str], OldName]:
    return {row.place(): row for row in OLD_NAMES}


def find_object(module: str, name: str) -> Any:
    """Return what an old name of a module is today, with a `DeprecationWarning`.

    Raises:
        AttributeError: if there was no such name.
    """
    row = _rows().get((module, name))
    if row is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    # Shown at the line that uses the name; Python leaves out the frames of an import.
    warnings.warn(row.advice(), DeprecationWarning, stacklevel=4)
    new_module, new_name = row.target()
    return getattr(importlib.import_module(new_module), new_name)


@cache
def is_old_module(name: str) -> bool | None:
    """Return True for a package of tfaip 1.2, False for another module of it, None if there was none."""
    modules = {module for module, _ in _rows()}
    if any(module.startswith(f"{name}.") for module in modules):
        return True
    return False if name in modules else None
