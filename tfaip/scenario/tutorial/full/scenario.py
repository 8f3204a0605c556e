"""Scenario of the tutorial: it binds data, model and evaluator, and sets defaults.

tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir runs/tutorial
tfaip-train tfaip.scenario.tutorial.full --trainer.output_dir runs/mlp --model.graph MLP
"""

from tfaip import Scenario
from tfaip.scenario.tutorial.full.data import Part, TutorialData, TutorialGenerator
from tfaip.scenario.tutorial.full.evaluator import TutorialEvaluator
from tfaip.scenario.tutorial.full.modelparams import TutorialModelParams
from tfaip.scenario.tutorial.full.processors import Normalize, RandomShift


class TutorialScenario(Scenario):
    """Classification of images of ten classes, by default scikit-learn's handwritten digits."""

    data, model, evaluator = TutorialData, TutorialModelParams, TutorialEvaluator
    train, val = TutorialGenerator(), TutorialGenerator(part=Part.VAL)
    processors = [RandomShift(), Normalize()]
    defaults = {"trainer.epochs": 20}
