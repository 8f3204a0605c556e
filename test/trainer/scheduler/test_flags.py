"""Schedules on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.commands import CommandResult
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.scheduler import (
    SCHEDULES,
    CosineDecayParams,
    FunctionParams,
    LearningRateParams,
    Mode,
    NewbobRelParams,
    Warmup,
    WarmupCosineDecayParams,
)

MIN = "tfaip.scenario.tutorial.min"


def parse(*flags: str) -> LearningRateParams:
    from tfaip.scenario.tutorial.min.scenario import MinScenario

    parser = ParamsParser(prog="test")
    parser.add_params("trainer", TrainerParams, default=MinScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *flags]).trainer.learning_rate


@pytest.mark.parametrize("cls", [cls for cls in SCHEDULES if cls is not FunctionParams])
def test_a_schedule_is_chosen_by_its_short_name(cls: type[LearningRateParams]) -> None:
    params = parse("--learning_rate", cls.__name__.removesuffix("Params"), "--learning_rate.lr", "0.5")
    assert type(params) is cls
    assert params.lr == 0.5


def test_fields_are_flags() -> None:
    params = parse("--trainer.epochs", "8", "--learning_rate", "CosineDecay", "--learning_rate.alpha", "0.1")
    assert params == CosineDecayParams(alpha=0.1, epochs=8)
    flags = ["warmup_epochs=3", "warmup_factor=2", "warmup=exponential", "constant_epochs=4", "final_epochs=5"]
    params = parse("--learning_rate", "WarmupCosineDecay", *[f"--learning_rate.{flag}" for flag in flags])
    assert params == WarmupCosineDecayParams(
        warmup_epochs=3, warmup_factor=2, warmup=Warmup.EXPONENTIAL, constant_epochs=4, final_epochs=5, epochs=100
    )


def test_rates_are_a_list_or_a_dict() -> None:
    assert parse("--learning_rate.rates", "0.1", "1e-3").rates == [0.1, 0.001]
    assert parse("--learning_rate.rates", "3=0.1", "5=1e-3").rates == {3: 0.1, 5: 0.001}
    assert parse("--learning_rate.rates", "0.1").listed() == {1: 0.1}
    assert parse("--learning_rate.rates").listed() == {}


def test_monitors_and_factors() -> None:
    params = parse("--learning_rate", "NewbobRel", "--learning_rate.monitor", "val_acc", "--learning_rate.mode", "max")
    assert params.monitor in ("val_acc", ["val_acc"])  # which mean the same
    assert params.mode is Mode.MAX
    flags = [
        "--learning_rate.monitor",
        "lav_l0_acc",
        "val_acc",
        "--learning_rate.decay",
        "0.9",
        "--learning_rate.growth",
    ]
    params = parse("--learning_rate", "NewbobRel", *flags, "pkg.rates:more")
    assert params == NewbobRelParams(monitor=["lav_l0_acc", "val_acc"], decay=0.9, growth="pkg.rates:more", epochs=100)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--learning_rate", "CosinDecay"], "no class 'CosinDecay'.* did you mean CosineDecay"),
        (["--learning_rate.alpha", "0.1"], "unknown flag --learning_rate.alpha; it belongs to CosineDecay"),
        (
            ["--learning_rate", "CosineDecay", "--learning_rate.alpha", "2"],
            "^alpha is 2.0.*: change --learning_rate.alpha$",
        ),
        (
            ["--trainer.epochs", "3", "--learning_rate.rates", "4=0.1"],
            "expected epochs from 1 to 3, the last of the training; one is 4: change --learning_rate.rates$",
        ),
        (["--learning_rate.min_lr", "1"], "at most lr .*: change --learning_rate.min_lr or --learning_rate.lr$"),
        (["--learning_rate", "Piecewise", "--learning_rate.points", "0.5"], "expected key=value, got '0.5'"),
    ],
)
def test_mistakes_are_one_line(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(*flags)


@pytest.mark.slow
def test_a_run_compiled_by_xla(tmp_path: Path, run_command: Callable[..., CommandResult]) -> None:
    flags = ["--trainer.epochs", "2", "--trainer.samples_per_epoch", "48", "--train.batch_size", "16"]
    flags += ["--trainer.jit_compile", "True", "--trainer.export_best", "False", "--trainer.export_final", "False"]
    flags += ["--learning_rate", "Function", "--learning_rate.lr", "0.5"]
    flags += ["--learning_rate.function", "test.trainer.scheduler.ratefunctions:falling"]
    flags += ["--learning_rate.modulation", "Cyclic", "--learning_rate.modulation.interval_steps", "2"]
    flags += ["--learning_rate.modulation.decay", "0.5"]
    run = tmp_path / "run"
    # Keras does not use XLA where TensorFlow shall be deterministic.
    env = {"TF_DETERMINISTIC_OPS": "0", "KERAS_BACKEND": "tensorflow"}
    result = run_command("train", MIN, "--trainer.output_dir", run, *flags, env=env)
    assert result.rc == 0, result
    assert "jit_compile" not in result.stderr
    records = json.loads((run / "history.json").read_text())
    means = [record["effective_lr"] for record in records.values()]
    assert means == pytest.approx([(1 / 2 + 1 / 8 + 1 / 6) / 3, (1 / 16 + 1 / 10 + 1 / 24) / 3], rel=1e-6)
