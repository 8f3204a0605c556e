"""Params of the rules on weights; need no backend."""

from __future__ import annotations

from collections.abc import Mapping

from tfaip.params import ParamsBase, option
from tfaip.params.limits import FieldError
from tfaip.trainer.pathpatterns import expected_pattern
from tfaip.trainer.weightrules.initializers import expected_initializer


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
    """Penalty l1 * sum |w| + l2 * sum w^2 on weights, added to the loss and logged with those of layers."""

    match: str = option(
        "",
        "Regex on paths of weights; it must match the whole path of a weight or layer, e.g. '.*kernel'",
        text=_expected_match,
    )
    l1: float = option(0.0, "Factor of the absolute values", low=0)
    l2: float = option(0.0, "Factor of the squares", low=0)


def check_rules(rules: Mapping[str, str]) -> None:
    """Raise unless all rules for the first values can be read.

    Raises:
        FieldError: if one cannot; its path begins at the trainer params.
    """
    for pattern, text in rules.items():
        expected = expected_pattern(pattern)
        if expected is not None:
            raise FieldError("param_init", pattern, f"{expected} before the first =")
        expected = expected_initializer(text)
        if expected is not None:
            raise FieldError("param_init", text, expected, index=pattern)
