"""Noise and penalties on the weights of a model, from the params of the training."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras

from tfaip.layers.weightnoise import UpdateNoise
from tfaip.model.losses import WeightPenalty
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.trainer.pathpatterns import matching_paths
from tfaip.util.logging import logger
from tfaip.util.text import number_text, shorten

log = logger(__name__)

# Returns a number of the params at a path, or the variable in its place.
Number = Callable[[str, float], "float | keras.Variable"]


def weight_noise(params: Any, number: Number) -> UpdateNoise | None:
    """Return the noise on weights that the trainer params ask for; None: none."""
    stddev = number("weight_noise.stddev", params.weight_noise.stddev)
    if isinstance(stddev, keras.Variable) or stddev > 0:
        return UpdateNoise(stddev, params.random_seed or 0)
    return None


def apply_rules(params: Any, model: TrainingModel, number: Number) -> None:
    """Let noise and penalties act on the weights that their rules match; call it before `compile`.

    Args:
        params: the trainer params.
        model: built.
        number: see `Number`.

    Raises:
        FieldAdvice: if a rule matches no weight; its path begins at the trainer params.
    """
    trained = {id(weight) for weight in model.graph.trainable_variables}
    weights = {path: w for path, w in variables_by_path(model.graph).items() if id(w) in trained}
    if model.noise is not None:
        match = params.weight_noise.match
        noisy = list(weights) if match is None else matching_paths(match, "weight_noise.match", "weight", weights)
        model.noise.bind([weights[path] for path in noisy])
        log.info("weight_noise: noise on %d of %d weights", len(noisy), len(weights))
    model.penalize([_penalty(params, index, weights, number) for index in range(len(params.weight_penalties))])


def _penalty(params: Any, index: int, weights: Mapping[str, keras.Variable], number: Number) -> WeightPenalty:
    rule, place = params.weight_penalties[index], f"weight_penalties.{index}"
    found = matching_paths(rule.match, f"{place}.match", "weight", weights)
    strengths = f"l1 {number_text(rule.l1)}, l2 {number_text(rule.l2)}"
    log.info("%s %s: %s on %s", place, shorten(rule.match), strengths, ", ".join(found))
    return WeightPenalty([weights[p] for p in found], number(f"{place}.l1", rule.l1), number(f"{place}.l2", rule.l2))
