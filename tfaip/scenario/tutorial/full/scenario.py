"""Scenario of the tutorial: it binds data, model and evaluator, and sets defaults.

tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir runs/tutorial
tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir runs/mlp --model.graph MLP
"""

from __future__ import annotations

from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.params import option
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.scenario.tutorial.full.data import TutorialDataParams, TutorialGeneratorParams
from tfaip.scenario.tutorial.full.datasets import Dataset, Part
from tfaip.scenario.tutorial.full.evaluator import TutorialEvaluator
from tfaip.scenario.tutorial.full.modelparams import TutorialModelParams
from tfaip.scenario.tutorial.full.processors import NormalizeParams, RandomShiftParams
from tfaip.trainer.params import TrainerParams, TrainerPipelineParamsBase


class TutorialScenarioParams(ScenarioBaseParams[TutorialDataParams, TutorialModelParams]):
    """Params of the data and the model, which an exported model stores."""


class TutorialPipelineParams(TrainerPipelineParamsBase[TutorialGeneratorParams, TutorialGeneratorParams]):
    """Generators of the training and the validation images."""

    # Not an option: `TutorialTrainerParams` copies the value of `--data.dataset`.
    dataset: Dataset = option(Dataset.DIGITS, "As chosen in the data", mode="ignore")

    def train_gen(self) -> TutorialGeneratorParams:
        return TutorialGeneratorParams(dataset=self.dataset, part=Part.TRAIN)

    def val_gen(self) -> TutorialGeneratorParams:
        return TutorialGeneratorParams(dataset=self.dataset, part=Part.VAL)


class TutorialTrainerParams(TrainerParams[TutorialScenarioParams, TutorialPipelineParams]):
    """All options of a training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        # Params that depend on another branch of the tree are set here, which runs after every
        # change.
        self.gen.dataset = self.scenario.data.dataset


class TutorialScenario(ScenarioBase[TutorialScenarioParams, TutorialTrainerParams]):
    """Classification of images of ten classes, by default scikit-learn's handwritten digits."""

    @classmethod
    def default_params(cls) -> TutorialScenarioParams:
        params = super().default_params()
        params.data.pre_proc = SequentialProcessorPipelineParams(processors=[RandomShiftParams(), NormalizeParams()])
        return params

    @classmethod
    def default_trainer_params(cls) -> TutorialTrainerParams:
        params = super().default_trainer_params()
        params.epochs = 20
        return params

    @classmethod
    def evaluator_cls(cls) -> type[TutorialEvaluator]:
        return TutorialEvaluator
