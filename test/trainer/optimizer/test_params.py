"""Params of optimizers: defaults, and impossible values."""

from __future__ import annotations

import dataclasses
import inspect

import keras
import pytest
from keras import ops

from test.trainer.optimizer.training import Training
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import limits_of
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdaBeliefOptimizer,
    AdamWOptimizer,
    KerasOptimizerParams,
    LambOptimizer,
    OptimizerGroupParams,
    OptimizerParams,
)
from tfaip.trainer.params import TrainerParams

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


def parse(*flags: str) -> TrainerParams:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *flags]).trainer


def test_names_of_the_optimizers() -> None:
    names = ["Adam", "AdamW", "Adamax", "AdaBelief", "Nadam", "SGD", "RMSprop", "Adagrad", "Adadelta"]
    names += ["LAMB", "Lion", "FTRL", "Adafactor", "Muon"]
    assert [type(parse("--optimizer", name).optimizer) for name in names] == OPTIMIZERS
    for name in ("Lamb", "LambOptimizer", "LAMB"):
        assert type(parse("--optimizer", name).optimizer) is LambOptimizer
    with pytest.raises(UsageError, match="no class 'lamb'.*LAMB"):
        parse("--optimizer", "lamb")


NEEDED = {OptimizerGroupParams: {"match": "a"}, AdaBeliefOptimizer: {"rectify": False}}


def numbers(cls: type) -> list[str]:
    """The fields that hold a number, and no truth value."""
    declared = {field.name: str(field.type) for field in dataclasses.fields(cls)}
    return [name for name, type_ in declared.items() if type_.split(" | ")[0] in ("int", "float")]


@pytest.mark.parametrize("cls", OPTIMIZERS)
def test_a_border_that_is_allowed_gives_finite_weights(cls: type) -> None:
    # A gradient of 0 is among them, and a weight.
    for name in set(numbers(cls)) - set(numbers(OptimizerParams)):
        limits = limits_of(cls, name)
        assert limits is not None
        for end in (limits.low, limits.high):
            if end is None:
                continue
            value = int(end) if name == "ns_steps" else float(end)
            params = cls(**{**NEEDED.get(cls, {}), name: value})
            training = Training(params, {"kernel": [[1.0, 0.0, 2.0]] * 2, "bias": [0.0, 1.0]})
            for _ in range(3):
                values = training.step([[0.5, -1.0, 0.0]] * 2, [0.0, 1.0])
            assert all(bool(ops.all(ops.isfinite(ops.convert_to_tensor(v)))) for v in values), (name, value)
