"""Params of optimizers: defaults, and impossible values."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from tfaip.trainer.optimizer import OPTIMIZERS, KerasOptimizerParams, OptimizerParams, SGDOptimizer

# What ours set for all optimizers alike.
OF_THE_TOOLKIT = {field.name for field in dataclasses.fields(OptimizerParams)}


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_fields_are_arguments_of_the_optimizer_with_its_defaults(cls: type[KerasOptimizerParams]) -> None:
    params = cls()
    arguments = inspect.signature(params.cls()).parameters
    own = {field.name for field in dataclasses.fields(cls)} - OF_THE_TOOLKIT
    assert own <= set(arguments)
    assert {name: getattr(params, name) for name in own} == {name: arguments[name].default for name in own}


def test_every_optimizer_has_a_help_text_for_each_field() -> None:
    for cls in OPTIMIZERS:
        assert cls.__doc__
        assert all(field.metadata for field in dataclasses.fields(cls))


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


def test_the_base_builds_nothing() -> None:
    with pytest.raises(NotImplementedError, match=r"OptimizerParams does not implement cls\(\)"):
        OptimizerParams().cls()
