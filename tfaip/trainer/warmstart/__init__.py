"""Warm start: a fresh training that begins with the weights of other models."""

from tfaip.trainer.warmstart.params import WarmstartParams, WarmStartParams

__all__ = ["WarmStartParams", "WarmstartParams"]
