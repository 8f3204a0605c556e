"""Params of a training: defaults, impossible values, and no backend."""

from __future__ import annotations

from typing import Any

import pytest

from test.support.commands import finish_command, start_python
from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import post_init
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import (
    TrainerParams,
    TrainerPipelineParams,
    TrainerPipelineParamsBase,
    TrainingPipelineGeneratorParams,
)


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
        ("scale_epoch_size", 0, "scale_epoch_size is 0, expected a number above 0"),
        ("scale_epoch_size", float("nan"), "scale_epoch_size is nan"),
        ("steps_per_execution", 2**31, "steps_per_execution is 2147483648, expected a number from 1 to"),
        ("checkpoint_save_freq", "0", "checkpoint_save_freq is '0', expected 'epoch' or a number of updates above 0"),
        ("checkpoint_save_freq", "batch", "checkpoint_save_freq is 'batch', expected 'epoch' or a number"),
    ],
)
def test_impossible_values_name_the_field(field: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Params(**{field: value})
    params = Params()
    setattr(params, field, value)
    with pytest.raises(ValueError, match=message):
        post_init(params)


@pytest.mark.parametrize(("text", "updates"), [("epoch", None), ("1", 1), ("250", 250)])
def test_checkpoint_frequency(text: str, updates: int | None) -> None:
    assert Params(checkpoint_save_freq=text).checkpoint_every_n_updates() == updates


def test_the_generators_of_a_pipeline() -> None:
    pipelines = Pipelines()
    assert pipelines.train_gen() is pipelines.train
    assert pipelines.val_gen() is pipelines.val
    assert list(pipelines.lav_gen()) == [pipelines.val]
    assert TrainingPipelineGeneratorParams is TrainerPipelineParams


def test_lav_without_validation_data_is_empty() -> None:
    class WithoutValidation(TrainerPipelineParamsBase[RawDataGeneratorParams, RawDataGeneratorParams]):
        def train_gen(self) -> RawDataGeneratorParams:
            return RawDataGeneratorParams()

        def val_gen(self) -> None:
            return None

    assert list(WithoutValidation().lav_gen()) == []


def test_params_import_no_backend_and_no_numpy() -> None:
    code = """
import sys
import tfaip.trainer.params
print([name for name in ("keras", "tensorflow", "jax", "numpy") if name in sys.modules])
"""
    result = finish_command(start_python("-c", code))
    assert (result.rc, result.stdout) == (0, "[]\n"), result
