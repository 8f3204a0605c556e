"""Time of an update, the argument of rules that run inside the compiled step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfaip.params.types import FunctionByName
from tfaip.util.typing import Tensor

ARGUMENTS = ("update", "epoch", "lr", "network", "global_train_step", "learning_rate")


@dataclass(frozen=True)
class UpdateTime:
    """Time and base rate of an update.

    Args:
        update: number of the update, from 0, an integer.
        epoch: number of completed epochs, with the fraction of the current one before this update.
        lr: the rate before the rule or the modulation.
        network: the training graph, or None.
    """

    update: Tensor
    epoch: Tensor
    lr: Tensor
    network: Any = None

    def call(self, function: FunctionByName) -> Tensor:
        """Call a function of the user, which may also use the names that RETURNN has for the arguments."""
        return function(
            update=self.update,
            epoch=self.epoch,
            lr=self.lr,
            network=self.network,
            global_train_step=self.update,
            learning_rate=self.lr,
        )
