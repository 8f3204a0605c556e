"""Learning rate schedules: each file holds the params of a schedule together with its rule; needs no backend."""

from tfaip.trainer.scheduler.constant import ConstantParams
from tfaip.trainer.scheduler.cosine import CosineDecayParams
from tfaip.trainer.scheduler.exponential import ExponentialDecayParams
from tfaip.trainer.scheduler.interpolation import Interpolation
from tfaip.trainer.scheduler.inversesqrt import InverseSqrtDecayParams
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.trainer.scheduler.piecewise import PiecewiseParams
from tfaip.trainer.scheduler.polynomial import PolynomialDecayParams
from tfaip.trainer.scheduler.warmup import (
    Warmup,
    WarmupConstantParams,
    WarmupCosineDecayParams,
    WarmupExponentialDecayParams,
)

SCHEDULES = [
    ConstantParams,
    ExponentialDecayParams,
    CosineDecayParams,
    WarmupConstantParams,
    WarmupExponentialDecayParams,
    WarmupCosineDecayParams,
    InverseSqrtDecayParams,
    PolynomialDecayParams,
    PiecewiseParams,
]

__all__ = [
    "SCHEDULES",
    "ConstantParams",
    "CosineDecayParams",
    "ExponentialDecayParams",
    "Interpolation",
    "InverseSqrtDecayParams",
    "LearningRateParams",
    "PiecewiseParams",
    "PolynomialDecayParams",
    "Warmup",
    "WarmupConstantParams",
    "WarmupCosineDecayParams",
    "WarmupExponentialDecayParams",
]
