"""What other params of the learning rate would have done with the scores of a run."""

from __future__ import annotations

from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler import LearningRateParams


def replay(params: LearningRateParams, recorded: History) -> History:
    """The rates that `params` give for the recorded epochs, decided on the recorded values."""
    replayed = History()
    for epoch in recorded.epochs:
        replayed.record(epoch, EpochRecord(params.rate(epoch, replayed), recorded.values(epoch)))
    return replayed
