"""What a rule that runs inside of the compiled step knows about the update."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tfaip.params.functions import FunctionByName
from tfaip.util.typing import Tensor

ARGUMENTS = ("update", "epoch", "lr", "network", "global_train_step", "learning_rate")


@dataclass(frozen=True)
class UpdateTime:
    """An update.

    Args:
        update: number of the update, from 0, an integer.
        epoch: completed epochs, with the fraction of the running one that belongs to earlier updates.
        lr: the rate that a rule starts from.
        network: the training graph; None where there is none.
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
