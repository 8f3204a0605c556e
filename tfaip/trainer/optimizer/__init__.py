"""Params of the optimizers; `build` makes a Keras optimizer of them."""

from typing import TYPE_CHECKING

from tfaip.trainer.optimizer.optimizers import (
    OPTIMIZERS,
    AdaBeliefOptimizer,
    AdadeltaOptimizer,
    AdafactorOptimizer,
    AdagradOptimizer,
    AdamaxOptimizer,
    AdamOptimizer,
    AdamWOptimizer,
    FtrlOptimizer,
    KerasOptimizerParams,
    LambOptimizer,
    LionOptimizer,
    MuonOptimizer,
    NadamOptimizer,
    RMSpropOptimizer,
    SGDOptimizer,
)
from tfaip.trainer.optimizer.params import GradientNoiseParams, OptimizerGroupParams, OptimizerParams
from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

__all__ = [
    "OPTIMIZERS",
    "AdaBeliefOptimizer",
    "AdadeltaOptimizer",
    "AdafactorOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "AdamWOptimizer",
    "AdamaxOptimizer",
    "FtrlOptimizer",
    "GradientNoiseParams",
    "KerasOptimizerParams",
    "LambOptimizer",
    "LionOptimizer",
    "MuonOptimizer",
    "NadamOptimizer",
    "OptimizerGroupParams",
    "OptimizerParams",
    "RMSpropOptimizer",
    "SGDOptimizer",
]
