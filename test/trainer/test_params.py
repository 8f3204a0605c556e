"""Params of a training: what they cannot be, and what follows from them."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from test.support.former.scenario import WaveScenario
from test.support.former12 import unpack_former
from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import (
    LineScenario,
    Weights,
    line_params,
    train,
)
from tfaip.data.databaseparams import DataBaseParams, DataPipelineParams
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.params import AUTOMATIC_PROCESSES, available_cores
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.errors import UsageError
from tfaip.export.trainingdata import load_training_data
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import ParamsBase
from tfaip.params.stored import flat_params, load_params, to_dict
from tfaip.params.tree import nodes_of
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.scripts.common.parser import load_trainer_params
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.params import TrainerParams, TrainerPipelineParams, TrainingPipelineGeneratorParams
from tfaip.trainer.scheduler import SCHEDULES, NewbobAbsParams
from tfaip.trainer.scheduler.rules import MODULATIONS
from tfaip.trainer.trainer import Trainer


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
        for declared in fields(cls):
            name = declared.name
            is_free = name == "offset_epochs" and kind is int  # a schedule may begin before the training does
            if declared.metadata.get("mode") != "ignore" and hints[name] in (kind, kind | None) and not is_free:
                for value in values:
                    with pytest.raises(ValueError, match=name):
                        cls(**{name: value})
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


def test_what_is_set_after_the_trainer_was_made_is_checked_before_anything_is_written(tmp_path: Path) -> None:
    params = line_params([1, 2], output_dir=tmp_path / "run")
    trainer = LineScenario.create_trainer(params)
    trainer.params.epochs = 2.5  # type: ignore[assignment]
    with pytest.raises(UsageError, match=r"^--trainer\.epochs: expected int, got 2\.5$"):
        trainer.train()
    params.epochs, scenario = 2, TinyScenario(TinyScenario.default_params())
    with pytest.raises(UsageError, match="is not a params class derived from TinyTrainerParams"):
        TinyScenario.trainer_cls()(params, scenario).train()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_run_completes_a_copy_of_the_params(tmp_path: Path) -> None:
    params = line_params([1, 2, 3, 4, 5], [1, 2, 3], tmp_path / "run", epochs=3, random_seed=None, overwrite=True)
    params.gen.setup.train.shuffle_buffer_size, params.learning_rate = -1, NewbobAbsParams(lr=0.25)
    before = flat_params(to_dict(params))
    whole, rest = Weights(), Weights()
    trainer = train(params, whole)
    assert flat_params(to_dict(params)) == {**before, "current_epoch": 3}  # as tfaip 1.2 counts it there
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())
    assert stored["random_seed"] == trainer.params.random_seed is not None
    assert stored["learning_rate"]["best_monitor"] == "val_loss/mean_epoch"
    assert stored["scenario"]["scenario_id"] == "test.trainer.line:LineScenario"
    assert not stored["overwrite"]
    # A resume takes the drawn seed from the checkpoint.
    train(params, rest, restore=True, checkpoint="epoch_0002")
    assert rest.values == whole.values[2:]


def ask_for_many(file: Path) -> None:
    file.write_text(re.sub(r'"(num_processes|num_threads)": -?\d+', r'"\1": 1024', file.read_text()))


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose files ask for 1024 worker processes."""
    run = tmp_path_factory.mktemp("greedy") / "run"
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.epochs, params.scenario.export_serve = str(run), 1, False
    params.export_final = False
    TinyScenario.create_trainer(params).train()
    for file in (run / "trainer_params.json", *(run / "best").glob("*.json")):
        if file.name != "manifest.json":
            ask_for_many(file)
    return run


def load_former_data(run: Path) -> Any:
    """Return the data of a model of tfaip 1.2."""
    former = unpack_former(run)
    ask_for_many(former / "best" / "trainer_params.json")
    return load_training_data(former / "best", WaveScenario)


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (lambda run: load_params(run / "trainer_params.json", TinyTrainerParams), "trainer_params.json"),
        (lambda run: TinyScenario.params_from_path(run / "best"), "scenario_params.json"),
        (lambda run: Trainer.restore_trainer(run).params, "trainer_params.json"),
        (lambda run: load_training_data(run / "best", TinyScenario), "training_data.json"),
        (load_former_data, "trainer_params.json"),
        (lambda run: load_trainer_params(run / "trainer_params.json", []).params, "trainer_params.json"),
    ],
)
def test_no_file_starts_more_workers_than_there_are_cores(load, name, greedy, tmp_path, caplog):
    run, cores, counts = shutil.copytree(greedy, tmp_path / "run"), available_cores(), []
    with caplog.at_level("INFO", "tfaip"):
        params = load(run)
    for node in nodes_of(params):
        for field_name in ("num_processes", "num_threads"):
            if isinstance(node, DataPipelineParams | SequentialProcessorPipelineParams) and hasattr(node, field_name):
                counts.append(getattr(node, field_name))
    assert counts
    assert set(counts) == {cores}
    begin = f"{name} asks for 1024 worker processes, there will be {cores}, one for each core: give num_"
    assert sum(begin in message for message in caplog.messages) == len(counts)
    for count in (AUTOMATIC_PROCESSES, 0, cores):  # these stay as they are
        params = DataPipelineParams(num_processes=count)
        params.limit_to_machine(Path("a.json"))
        assert params.num_processes == count
