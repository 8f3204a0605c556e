"""The options of the optimizer on the command line."""

from __future__ import annotations

import pytest

from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.scenario.tutorial.min.scenario import MinScenario
from tfaip.trainer.optimizer import (
    OPTIMIZERS,
    AdamOptimizer,
    GradientNoiseParams,
    LambOptimizer,
    OptimizerGroupParams,
    SGDOptimizer,
)
from tfaip.trainer.params import TrainerParams


def parse(*flags: str) -> TrainerParams:
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *flags]).trainer


def test_noise_skips_and_resets() -> None:
    noise = ["--optimizer.gradient_noise.stddev", "0.5", "--optimizer.gradient_noise.gamma", "0.55"]
    params = parse(*noise, "--optimizer.skip_nonfinite", "3", "--optimizer.reset_every_n_epochs", "2")
    noise_params = GradientNoiseParams(stddev=0.5, gamma=0.55)
    assert params.optimizer == AdamOptimizer(gradient_noise=noise_params, skip_nonfinite=3, reset_every_n_epochs=2)


def test_names_of_the_optimizers() -> None:
    names = ["Adam", "AdamW", "Adamax", "AdaBelief", "Nadam", "SGD", "RMSprop", "Adagrad", "Adadelta"]
    names += ["LAMB", "Lion", "FTRL", "Adafactor", "Muon"]
    assert [type(parse("--optimizer", name).optimizer) for name in names] == OPTIMIZERS
    for name in ("Lamb", "LambOptimizer", "LAMB"):
        assert type(parse("--optimizer", name).optimizer) is LambOptimizer
    with pytest.raises(UsageError, match="no class 'lamb'.*LAMB"):
        parse("--optimizer", "lamb")


def test_groups_are_a_list() -> None:
    first = {"match": "encoder", "lr_factor": "0.1"}
    second = {"match": ".*/bias", "optimizer": "SGD", "optimizer.momentum": "0.5"}
    flags = [w for i, g in enumerate((first, second)) for n, v in g.items() for w in (f"--optimizer.groups.{i}.{n}", v)]
    params = parse("--optimizer", "SGD", "--optimizer.groups", "OptimizerGroup", "OptimizerGroup", *flags)
    assert params.optimizer.groups == [
        OptimizerGroupParams(match="encoder", lr_factor=0.1),
        OptimizerGroupParams(match=".*/bias", optimizer=SGDOptimizer(momentum=0.5)),
    ]


def test_loss_weights_are_a_dict() -> None:
    assert parse("--trainer.loss_weights", "ctc=0.3", "attention=0").loss_weights == {"ctc": 0.3, "attention": 0.0}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--optimizer.skip_nonfinite", "-1"], "expected at least 0: change --optimizer.skip_nonfinite$"),
        (
            ["--optimizer.groups", "OptimizerGroup"],
            "match is '', expected a regular .*: change --optimizer.groups.0.match$",
        ),
        (["--trainer.loss_weights", "ctc=-1"], r"loss_weights\['ctc'\] is -1.0, .*: change --trainer.loss_weights$"),
    ],
)
def test_a_mistake_is_told(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(*flags)
