# The one list of the public names of `tfaip`, read by type checkers and by `tfaip/__init__.py`.

from tfaip.data.data import Data as Data
from tfaip.data.databaseparams import (
    DataBaseParams as DataBaseParams,
    DataGeneratorParams as DataGeneratorParams,
    DataPipelineParams as DataPipelineParams,
)
from tfaip.data.pipeline.datagenerator import Generator as Generator
from tfaip.data.pipeline.definitions import PipelineMode as PipelineMode, Sample as Sample
from tfaip.data.pipeline.processor.dataprocessor import Processor as Processor, StreamProcessor as StreamProcessor
from tfaip.data.pipeline.processor.params import DataProcessorParams as DataProcessorParams
from tfaip.data.specs import Spec as Spec
from tfaip.evaluator.evaluator import Evaluator as Evaluator, EvaluatorParams as EvaluatorParams
from tfaip.model.modelbaseparams import ModelBaseParams as ModelBaseParams
from tfaip.params.fields import option as option, shared as shared
from tfaip.scenario.scenario import Scenario as Scenario
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams as ScenarioBaseParams
from tfaip.trainer.params import (
    TrainerParams as TrainerParams,
    TrainerPipelineParams as TrainerPipelineParams,
    TrainerPipelineParamsBase as TrainerPipelineParamsBase,
)
from tfaip.version import __version__ as __version__
