"""tfaip: train, validate, export and serve Keras models described by one tree of dataclasses.

The public names are imported on first use: `import tfaip` loads neither a numeric backend nor the modules
behind them. `tfaip.imports` offers these names and all others that a scenario may need.
"""

from tfaip.util.importpath import leave_start_directory

# Before any other import: `python -m tfaip.scripts.lav` would import `typing` from the working directory.
leave_start_directory()

from typing import TYPE_CHECKING  # noqa: E402

from tfaip.util.lazy import lazy_attributes  # noqa: E402

__version__ = "2.0.0.dev0"

PUBLIC_NAMES = {
    "DataBaseParams": "tfaip.data.databaseparams",
    "DataGeneratorParams": "tfaip.data.databaseparams",
    "DataPipelineParams": "tfaip.data.databaseparams",
    "EvaluatorParams": "tfaip.evaluator.params",
    "ModelBaseParams": "tfaip.model.modelbaseparams",
    "PipelineMode": "tfaip.data.pipeline.definitions",
    "Sample": "tfaip.data.pipeline.definitions",
    "ScenarioBaseParams": "tfaip.scenario.scenariobaseparams",
    "TrainerParams": "tfaip.trainer.params",
    "TrainerPipelineParams": "tfaip.trainer.params",
    "TrainerPipelineParamsBase": "tfaip.trainer.params",
}

__all__ = ["__version__", *PUBLIC_NAMES]

if TYPE_CHECKING:
    from tfaip.data.databaseparams import (
        DataBaseParams as DataBaseParams,
        DataGeneratorParams as DataGeneratorParams,
        DataPipelineParams as DataPipelineParams,
    )
    from tfaip.data.pipeline.definitions import (
        PipelineMode as PipelineMode,
        Sample as Sample,
    )
    from tfaip.evaluator.params import EvaluatorParams as EvaluatorParams
    from tfaip.model.modelbaseparams import ModelBaseParams as ModelBaseParams
    from tfaip.scenario.scenariobaseparams import ScenarioBaseParams as ScenarioBaseParams
    from tfaip.trainer.params import (
        TrainerParams as TrainerParams,
        TrainerPipelineParams as TrainerPipelineParams,
        TrainerPipelineParamsBase as TrainerPipelineParamsBase,
    )
else:
    __getattr__, __dir__ = lazy_attributes(__name__, PUBLIC_NAMES)
