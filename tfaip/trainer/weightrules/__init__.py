"""Rules of the training by regular expressions on paths of weights: noise and penalties."""

from tfaip.trainer.weightrules.params import WeightNoiseParams, WeightPenaltyParams

__all__ = ["WeightNoiseParams", "WeightPenaltyParams"]
