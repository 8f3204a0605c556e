"""Params of optimizers: defaults, and impossible values."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import keras
import pytest

from tfaip.trainer.optimizer import OPTIMIZERS, AdamWOptimizer, KerasOptimizerParams, OptimizerParams, SGDOptimizer

# What ours set for all optimizers alike.
OF_THE_TOOLKIT = {field.name for field in dataclasses.fields(OptimizerParams)}
# Arguments that all optimizers of Keras have; what they do is done for all optimizers alike. Of Muon: names of layers,
# which `optimizer.groups` selects by their paths, and constants of its iteration.
FOR_ALL = {"self", "learning_rate", "clipnorm", "clipvalue", "global_clipnorm", "use_ema", "name"}
FOR_ALL |= {"ema_momentum", "ema_overwrite_frequency", "loss_scale_factor", "gradient_accumulation_steps", "kwargs"}
FOR_ALL |= {"exclude_layers", "muon_a", "muon_b", "muon_c"}


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_arguments_and_defaults_are_those_of_keras(cls: type[KerasOptimizerParams]) -> None:
    params = cls()
    described = keras.optimizers.AdamW if cls is AdamWOptimizer else params.cls()
    found = inspect.signature(described.__init__).parameters
    arguments = {name: p.default for name, p in found.items() if name not in FOR_ALL}
    arguments["weight_decay"] = arguments.get("weight_decay") or 0.0
    # There is one number for both parts of Muon.
    assert arguments.pop("adam_weight_decay", params.weight_decay) == params.weight_decay
    assert arguments == {name: getattr(params, name) for name in arguments}
    assert {field.name for field in dataclasses.fields(cls)} - OF_THE_TOOLKIT <= set(arguments)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clip_value": 0.0}, "clip_value is 0.0, expected a number above 0, or None$"),
        ({"momentum": 1.5}, "momentum is 1.5, expected a number from 0 to 1$"),
        ({"exclude_from_weight_decay": "bias("}, r"is 'bias\(', expected a regular expression \(missing"),
    ],
)
def test_impossible_values_name_the_field(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SGDOptimizer(**fields)
