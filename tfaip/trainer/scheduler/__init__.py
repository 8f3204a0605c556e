"""Learning rate schedules: each file holds the params of a schedule together with its rule; needs no backend."""

from tfaip.trainer.scheduler.constant import ConstantParams
from tfaip.trainer.scheduler.exponential import ExponentialDecayParams
from tfaip.trainer.scheduler.params import LearningRateParams

__all__ = ["ConstantParams", "ExponentialDecayParams", "LearningRateParams"]
