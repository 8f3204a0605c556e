"""Params of the rules on weights; need no backend."""

from __future__ import annotations

from tfaip.params import ParamsBase, option
from tfaip.trainer.pathpatterns import expected_pattern


def _expected_match(pattern: str) -> str | None:
    return expected_pattern(pattern) if pattern else "a regular expression on paths of weights"


class WeightNoiseParams(ParamsBase):
    """Noise normal(0, stddev) on weights in the forward pass of the training; the gradients are taken at them."""

    stddev: float = option(0.0, "Standard deviation (0: no noise)", low=0)
    match: str | None = option(
        None,
        "Regex on paths of weights that get noise; it must match the whole path of a weight or layer (None: all that "
        "are trained)",
        text=expected_pattern,
    )


class WeightPenaltyParams(ParamsBase):
    """Penalty l1 * sum |w| + l2 * sum w^2 on weights, added to the training loss and logged with those of layers."""

    match: str = option(
        "",
        "Regex on paths of weights; it must match the whole path of a weight or layer, e.g. '.*kernel'",
        text=_expected_match,
    )
    l1: float = option(0.0, "Factor of the absolute values", low=0)
    l2: float = option(0.0, "Factor of the squares", low=0)
