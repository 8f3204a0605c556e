"""Early stopping."""

from tfaip.trainer.earlystopping.params import EarlyStoppingParams

__all__ = ["EarlyStoppingParams"]
