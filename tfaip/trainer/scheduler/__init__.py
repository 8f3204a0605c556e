"""Learning rate schedules: each file has the params of a rule and the rule itself. Needs no backend."""

from typing import TYPE_CHECKING

from tfaip.trainer.scheduler.constant import ConstantParams
from tfaip.trainer.scheduler.cosine import CosineDecayParams
from tfaip.trainer.scheduler.exponential import ExponentialDecayParams
from tfaip.trainer.scheduler.feedback import Decision, Divisor, FeedbackParams, Mode
from tfaip.trainer.scheduler.function import FunctionParams
from tfaip.trainer.scheduler.interpolation import Interpolation
from tfaip.trainer.scheduler.inversesqrt import InverseSqrtDecayParams
from tfaip.trainer.scheduler.modulation import (
    MODULATIONS,
    CyclicModulationParams,
    FunctionModulationParams,
    ModulationParams,
    NoamModulationParams,
)
from tfaip.trainer.scheduler.newbob import (
    NewbobAbsParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
    ReduceOnPlateauParams,
)
from tfaip.trainer.scheduler.params import LearningRateParams
from tfaip.trainer.scheduler.piecewise import PiecewiseParams
from tfaip.trainer.scheduler.polynomial import PolynomialDecayParams
from tfaip.trainer.scheduler.updatetime import UpdateTime
from tfaip.trainer.scheduler.warmup import (
    Warmup,
    WarmupConstantParams,
    WarmupCosineDecayParams,
    WarmupExponentialDecayParams,
)
from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

FEEDBACK = [NewbobRelParams, NewbobAbsParams, NewbobMultiEpochParams, ReduceOnPlateauParams]
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
    *FEEDBACK,
    FunctionParams,
]

__all__ = [
    "FEEDBACK",
    "MODULATIONS",
    "SCHEDULES",
    "ConstantParams",
    "CosineDecayParams",
    "CyclicModulationParams",
    "Decision",
    "Divisor",
    "ExponentialDecayParams",
    "FeedbackParams",
    "FunctionModulationParams",
    "FunctionParams",
    "Interpolation",
    "InverseSqrtDecayParams",
    "LearningRateParams",
    "Mode",
    "ModulationParams",
    "NewbobAbsParams",
    "NewbobMultiEpochParams",
    "NewbobRelParams",
    "NoamModulationParams",
    "PiecewiseParams",
    "PolynomialDecayParams",
    "ReduceOnPlateauParams",
    "UpdateTime",
    "Warmup",
    "WarmupConstantParams",
    "WarmupCosineDecayParams",
    "WarmupExponentialDecayParams",
]
