"""Params of a training: what they cannot be, and what follows from them."""

import json
import math
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import get_type_hints

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
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.params import AUTOMATIC_PROCESSES, available_cores
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.device import DeviceConfigParams
from tfaip.errors import UsageError
from tfaip.export.trainingdata import load_training_data
from tfaip.params import ParamsBase
from tfaip.params.stored import flat_params, load_params
from tfaip.params.tree import nodes_of
from tfaip.scenario.tutorial.full.scenario import TutorialScenario
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import OPTIMIZERS
from tfaip.trainer.params import TrainerPipelineParams, TrainingPipelineGeneratorParams
from tfaip.trainer.scheduler import SCHEDULES, NewbobAbsParams
from tfaip.trainer.scheduler.rules import MODULATIONS


def test_impossible_values_name_the_field() -> None:
    for field, value, message in [
        ("keep_checkpoints", 1, "keep_checkpoints is 1, expected at least 2"),
        ("samples_per_epoch", -2, "samples_per_epoch is -2, expected at least 1, or -1 for one pass over the"),
        ("checkpoint_save_freq", "0", "checkpoint_save_freq is '0', expected 'epoch' or a number of updates above 0"),
        ("random_seed", 2**32, "random_seed is 4294967296"),
    ]:
        params = line_params([1])
        with pytest.raises(ValueError, match=message):
            type(params)(**{field: value})
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
    params = line_params([1])
    assert (params.gen.train_gen(), params.gen.val_gen()) == (params.gen.train, params.gen.val)
    assert list(params.gen.lav_gen()) == [params.gen.val]
    assert TrainingPipelineGeneratorParams is TrainerPipelineParams
    for text, updates in (("epoch", None), ("250", 250), (250, 250)):
        assert replace(params, checkpoint_save_freq=text).checkpoint_every_n_updates() == updates


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
    before = flat_params(params.to_dict())
    whole, rest = Weights(), Weights()
    trainer = train(params, whole)
    assert flat_params(params.to_dict()) == {**before, "current_epoch": 3}  # as tfaip 1.2 counts it there
    stored = json.loads((tmp_path / "run" / "trainer_params.json").read_text())
    assert stored["random_seed"] == trainer.params.random_seed is not None
    assert stored["learning_rate"]["modes"] == {"val_loss/mean_epoch": "min"}
    assert stored["scenario"]["scenario_id"] == "test.trainer.line:LineScenario"
    assert not stored["overwrite"]
    # A resume takes the drawn seed from the checkpoint.
    train(params, rest, restore=True, checkpoint="epoch_0002")
    assert rest.values == whole.values[2:]


@pytest.fixture(scope="module")
def greedy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this version, and one of 1.2 beside it, whose files ask for 1024 worker processes."""
    place = tmp_path_factory.mktemp("greedy")
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.epochs, params.scenario.export_serve = str(place / "new"), 1, False
    params.export_final = False
    TinyScenario.create_trainer(params).train()
    unpack_former(place)
    for file in place.rglob("*params.json"):
        file.write_text(re.sub(r'"(num_processes|num_threads)": -?\d+', r'"\1": 1024', file.read_text()))
    return place


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (lambda place: load_params(place / "new" / "trainer_params.json", TinyTrainerParams), "trainer_params.json"),
        (lambda place: TinyScenario.params_from_path(place / "new" / "best"), "scenario_params.json"),
        (lambda place: load_training_data(place / "run" / "best", WaveScenario), "trainer_params.json"),
    ],
)
def test_no_file_starts_more_workers_than_there_are_cores(load, name, greedy, caplog):
    cores, counts = available_cores(), []
    with caplog.at_level("INFO", "tfaip"):
        params = load(greedy)
    for node in nodes_of(params):
        if isinstance(node, DataPipelineParams | SequentialProcessorPipelineParams):
            counts += [getattr(node, name) for name in ("num_processes", "num_threads") if hasattr(node, name)]
    assert set(counts) == {cores}
    begin = f"{name} asks for 1024 worker processes, there will be {cores}, one for each core: give num_"
    assert sum(begin in message for message in caplog.messages) == len(counts)
    for count in (AUTOMATIC_PROCESSES, 0, cores):  # these stay as they are
        params = DataPipelineParams(num_processes=count)
        params.limit_to_machine(Path("a.json"))
        assert params.num_processes == count
