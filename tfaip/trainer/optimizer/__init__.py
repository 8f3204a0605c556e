"""Params of the optimizers; `trainingoptimizer` builds the optimizer of a training from them."""

from typing import TYPE_CHECKING

from tfaip.trainer.optimizer.optimizers import *  # noqa: F403
from tfaip.util.oldnames import old_names

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)
