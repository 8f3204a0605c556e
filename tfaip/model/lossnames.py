"""Names of losses: those that the toolkit logs, and checks of those of a model."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tfaip.model.modelbase import ModelBase
from tfaip.util.typing import TensorDict

TOTAL_LOSS = "loss"
OWN_LOSS = "loss_loss"
"""Logged name of a loss that is called as the total, among several."""
REGULARIZATION = "regularization"
INPUT_GRADIENT = "input_gradient_regularization"


def check_losses(model: ModelBase[Any], losses: TensorDict, sample_weights: TensorDict, adds_some: bool) -> None:
    """Raise unless the losses of a model can be logged by their names, and there is one.

    Args:
        model: the losses are those of its `_loss`.
        losses: by name.
        sample_weights: those of its `_sample_weights`.
        adds_some: a layer adds a loss, too.

    Raises:
        TypeError: if `_loss` returned no dict.
        ValueError: if there is no loss, if a name is taken, or if a weight has no loss.
    """
    owner = type(model).__name__
    if not isinstance(losses, dict):
        raise TypeError(f"{owner}._loss returned {type(losses).__name__}, expected a dict name -> tensor")
    if not losses and not adds_some:
        raise ValueError(f"{owner}._loss returned no loss and no layer adds one: there is nothing to minimise")
    if TOTAL_LOSS in losses and OWN_LOSS in losses:
        raise ValueError(
            f"{owner}._loss returned {OWN_LOSS!r}, under which the loss {TOTAL_LOSS!r} is logged: choose another"
        )
    for taken, what in ((REGULARIZATION, "losses of layers"), (INPUT_GRADIENT, "penalty of input gradients")):
        if taken in losses:
            raise ValueError(f"{owner}._loss returned {taken!r}, the name of the {what}: choose another")
    for hook, weights in (("_loss_weights", model._loss_weights() or {}), ("_sample_weights", sample_weights)):
        if unknown := set(weights) - set(losses):
            raise ValueError(
                f"{owner}.{hook} names {sorted(unknown)}, but the losses are {sorted(losses)}: correct the name"
            )


def check_names_differ(model: ModelBase[Any], names: Collection[str]) -> None:
    """Raise unless all losses and metrics of a model have names of their own.

    Raises:
        ValueError: if two share a name.
    """
    if len(set(names)) != len(names):
        owner = type(model).__name__
        raise ValueError(f"{owner}: two losses or metrics share a name in {list(names)}: give each its own")
