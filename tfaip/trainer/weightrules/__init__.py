"""Rules of the training by regular expressions on paths of weights: noise, penalties, first values."""

from tfaip.trainer.weightrules.params import WeightNoiseParams, WeightPenaltyParams, check_rules

__all__ = ["WeightNoiseParams", "WeightPenaltyParams", "check_rules"]
