"""Warm start: a fresh training that begins with the weights of other models."""

from tfaip.trainer.transferparams import WarmStartMode, WarmStartParams, WarmstartParams

__all__ = ["WarmStartMode", "WarmStartParams", "WarmstartParams"]
