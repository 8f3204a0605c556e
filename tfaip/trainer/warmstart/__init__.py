"""Warm start: a fresh training that begins with the weights of other models."""

from tfaip.trainer.warmstart.params import WarmStartParams, WarmstartParams

__all__ = ["WarmStartParams", "WarmstartParams"]
