"""Params of a training: what they cannot be, and what follows from them."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any, get_type_hints

import pytest

from test.trainer.line import LineScenario, line_params
from tfaip.data.databaseparams import DataBaseParams, DataPipelineParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.device import DeviceConfigParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import ParamsBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.params import TrainerParams, TrainerPipelineParams, TrainingPipelineGeneratorParams
from tfaip.trainer.scheduler import SCHEDULES
from tfaip.trainer.scheduler.params import MODULATIONS


class Pipelines(TrainerPipelineParams[RawDataGeneratorParams, RawDataGeneratorParams]):
    pass


class Params(TrainerParams[ScenarioBaseParams[DataBaseParams, ModelBaseParams], Pipelines]):
    pass


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("epochs", -1, "epochs is -1, expected at least 1"),
        ("val_every_n", -1, "val_every_n is -1, expected at least 0"),
        ("keep_checkpoints", 1, "keep_checkpoints is 1, expected at least 2"),
        ("samples_per_epoch", -2, "samples_per_epoch is -2, expected at least 1, or -1 for one pass over the"),
        ("scale_epoch_size", 0.0, "scale_epoch_size is 0.0, expected a number above 0"),
        ("steps_per_execution", 2**31, "steps_per_execution is 2147483648, expected a number from 1 to"),
        ("checkpoint_save_freq", "0", "checkpoint_save_freq is '0', expected 'epoch' or a number of updates above 0"),
        ("checkpoint_save_freq", "batch", "checkpoint_save_freq is 'batch', expected 'epoch' or a number"),
        ("calc_ema", 1.0, "calc_ema is 1.0"),
        ("train_accum_steps", 0, "train_accum_steps is 0"),
        *(("random_seed", seed, f"random_seed is {seed}") for seed in (-1, 2**32)),
    ],
)
def test_impossible_values_name_the_field(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Params(**{field: value})
    params = line_params([1])
    setattr(params, field, value)
    with pytest.raises(ValueError, match=f"{message}.*: change --trainer.{field}$"):
        LineScenario.create_trainer(params)


CLASSES: list[type[ParamsBase]] = [
    *(*SCHEDULES, *MODULATIONS, *OPTIMIZERS, EarlyStoppingParams, DataPipelineParams, DeviceConfigParams),
    *(TutorialScenario.trainer_params_cls(), TutorialScenario.params_cls()),
]


def refused(kind: type, *values: float) -> int:
    """Of each field with a flag that holds one number of a kind, and each value: refused where it is made, by name."""
    found = 0
    for cls in CLASSES:
        hints = get_type_hints(cls)
        for field in fields(cls):
            is_free = field.name == "offset_epochs" and kind is int  # a schedule may begin before the training does
            if field.metadata.get("mode") != "ignore" and hints[field.name] in (kind, kind | None) and not is_free:
                for value in values:
                    with pytest.raises(ValueError, match=field.name):
                        cls(**{field.name: value})
                    found += 1
    return found


def test_numbers_are_finite_and_counters_are_not_negative() -> None:
    assert refused(float, math.nan, math.inf, -math.inf) > 300
    assert refused(int, -7) > 50


def test_the_generators_of_a_pipeline() -> None:
    pipelines = Pipelines()
    assert pipelines.train_gen() is pipelines.train
    assert pipelines.val_gen() is pipelines.val
    assert list(pipelines.lav_gen()) == [pipelines.val]
    assert TrainingPipelineGeneratorParams is TrainerPipelineParams
    frequencies = [Params(checkpoint_save_freq=text).checkpoint_every_n_updates() for text in ("epoch", "250", 250)]
    assert frequencies == [None, 250, 250]
