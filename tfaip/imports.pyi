# The one list of the names of `tfaip.imports`, read by type checkers and by `tfaip/imports.py`.

from tfaip.data.data import Data as Data, DataBase as DataBase
from tfaip.data.databaseparams import (
    DataBaseParams as DataBaseParams,
    DataGeneratorParams as DataGeneratorParams,
    DataPipelineParams as DataPipelineParams,
)
from tfaip.data.generators.arrow import Parquet as Parquet
from tfaip.data.generators.csvfile import CsvGenerator as CsvGenerator, CsvGeneratorParams as CsvGeneratorParams
from tfaip.data.generators.imagefolder import ImageFolder as ImageFolder
from tfaip.data.generators.listsfile import (
    ListsFileGenerator as ListsFileGenerator,
    ListsFileGeneratorParams as ListsFileGeneratorParams,
)
from tfaip.data.generators.mixed import Mixed as Mixed
from tfaip.data.generators.sequence import (
    ArrayDataGenerator as ArrayDataGenerator,
    DatasetGenerator as DatasetGenerator,
    SequenceGenerator as SequenceGenerator,
)
from tfaip.data.pipeline.datagenerator import (
    DataGenerator as DataGenerator,
    Generator as Generator,
    RawDataGenerator as RawDataGenerator,
    RawDataGeneratorParams as RawDataGeneratorParams,
)
from tfaip.data.pipeline.datapipeline import DataPipeline as DataPipeline
from tfaip.data.pipeline.definitions import (
    GENERAL_PROCESSOR as GENERAL_PROCESSOR,
    INPUT_PROCESSOR as INPUT_PROCESSOR,
    TARGETS_PROCESSOR as TARGETS_PROCESSOR,
    PipelineMode as PipelineMode,
    Sample as Sample,
)
from tfaip.data.pipeline.processor.dataprocessor import (
    GeneratingDataProcessor as GeneratingDataProcessor,
    MappingDataProcessor as MappingDataProcessor,
    Processor as Processor,
    StreamProcessor as StreamProcessor,
)
from tfaip.data.pipeline.processor.params import (
    ComposedProcessorPipelineParams as ComposedProcessorPipelineParams,
    DataProcessorParams as DataProcessorParams,
    SequentialProcessorPipelineParams as SequentialProcessorPipelineParams,
)
from tfaip.data.specs import Spec as Spec, TensorSpec as TensorSpec
from tfaip.device.device_config import DeviceConfigParams as DeviceConfigParams
from tfaip.evaluator.evaluator import (
    Evaluator as Evaluator,
    EvaluatorBase as EvaluatorBase,
    EvaluatorParams as EvaluatorParams,
)
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve as PrecisionRecallCurve
from tfaip.lav.lav import LAV as LAV, MultiLAV as MultiLAV
from tfaip.layers.ctc import ctc_greedy_decode as ctc_greedy_decode, ctc_loss as ctc_loss
from tfaip.layers.ctcalignment import (
    Alignment as Alignment,
    ctc_align as ctc_align,
    ctc_beam_search as ctc_beam_search,
)
from tfaip.layers.specaugment import SpecAugment as SpecAugment
from tfaip.layers.stochasticdepth import StochasticDepth as StochasticDepth
from tfaip.model.graphbase import GenericGraphBase as GenericGraphBase, GraphBase as GraphBase
from tfaip.model.keras_objects import (
    Activation as Activation,
    Constraint as Constraint,
    Initializer as Initializer,
    Loss as Loss,
    Metric as Metric,
    Regularizer as Regularizer,
)
from tfaip.model.layerbase import LayerBase as LayerBase, TFAIPLayerBase as TFAIPLayerBase
from tfaip.model.layerbaseparams import LayerBaseParams as LayerBaseParams
from tfaip.model.modelbase import ModelBase as ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams as ModelBaseParams
from tfaip.model.tensorboardwriter import TensorboardWriter as TensorboardWriter
from tfaip.params.fields import option as option, shared as shared
from tfaip.params.settings import flag_values as flag_values
from tfaip.params.trust import nameable as nameable
from tfaip.predict.multimodelpredictor import MultiModelPredictor as MultiModelPredictor
from tfaip.predict.multimodelvoter import MultiModelVoter as MultiModelVoter
from tfaip.predict.params import LAVParams as LAVParams, PredictorParams as PredictorParams
from tfaip.predict.predictor import Predictor as Predictor
from tfaip.predict.samplefile import read_samples as read_samples
from tfaip.scenario.listfile.listfilescenario import (
    ListFilePipelineParams as ListFilePipelineParams,
    ListFileScenario as ListFileScenario,
    ListFileTrainerParams as ListFileTrainerParams,
)
from tfaip.scenario.scenario import Scenario as Scenario
from tfaip.scenario.scenariobase import ScenarioBase as ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams as ScenarioBaseParams
from tfaip.trainer.params import (
    TrainerParams as TrainerParams,
    TrainerPipelineParams as TrainerPipelineParams,
    TrainerPipelineParamsBase as TrainerPipelineParamsBase,
)
from tfaip.trainer.scheduler.rules import LearningRateParams as LearningRateParams
from tfaip.trainer.stages.params import (
    CallStage as CallStage,
    PredictStage as PredictStage,
    PretrainingParams as PretrainingParams,
    TrainStage as TrainStage,
)
from tfaip.trainer.trainer import Trainer as Trainer
from tfaip.trainer.transferparams import TransferParams as TransferParams, WarmStartParams as WarmStartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter as WarmStarter
