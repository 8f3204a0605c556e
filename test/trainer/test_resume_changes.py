"""Resuming with other params, and what an epoch counts."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.runs import checkpoints, history
from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import line_params, train, weight
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import Processor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.signals import TrainingInterrupted


class StopAfter(keras.callbacks.Callback):
    """Sends SIGTERM to this process after a number of batches of an epoch."""

    def __init__(self, batches: int, epoch: int = 1) -> None:
        super().__init__()
        self.batches, self.epoch, self.running = batches, epoch, 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.running = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.running, batch + 1) == (self.epoch, self.batches):
            signal.raise_signal(signal.SIGTERM)


def tiny_params(directory: Path, **kwargs: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(directory), 3, 1
    params.export_best = params.export_final = False
    for name, value in kwargs.items():
        setattr(params, name, value)
    return params


def newest_state(directory: Path) -> dict[str, Any]:
    latest = (directory / "checkpoint" / "latest").read_text().strip()
    state: dict[str, Any] = json.loads((directory / "checkpoint" / latest / "state.json").read_text())
    return state


@pytest.mark.slow
@pytest.mark.backend
def test_an_epoch_goes_on_with_batches_of_another_size(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(tiny_params(run)).train([StopAfter(6)])
    before = newest_state(run)
    assert [before[name] for name in ("epoch", "step", "samples")] == [0, 6, 24]
    params = tiny_params(run)
    params.gen.setup.train.batch_size = 8
    TinyScenario.create_trainer(params, restore=True).train()
    # 44 samples: 6 batches of 4, then 8 + 8 + 4.
    state = newest_state(run)
    assert state["history"]["1"]["meta"]["updates"] == 9
    assert [state[name] for name in ("epoch", "step", "samples", "seconds")] == [1, 0, 0, 0]
    # A pass has 30 samples: the epoch ended 14 samples into the second.
    assert (state["position"]["pass_index"], state["position"]["consumed"]) == (1, 14)
    # The seconds of an epoch count over resumes.
    assert state["history"]["1"]["meta"]["seconds"] > round(before["seconds"], 3) > 0
    # Weights that do not fit name what was changed.
    params = tiny_params(run, epochs=2)
    params.scenario.model.units = 5
    changed = r"changed: --trainer\.epochs: 1 -> 2, --model\.units: 8 -> 5, --train\.batch_size: 8 -> 4$"
    with pytest.raises(UsageError, match=rf"has shape \(8,\) there and \(5,\) in the model; .*{changed}"):
        TinyScenario.create_trainer(params, restore=True).train()


@pytest.mark.guard
@pytest.mark.backend
@pytest.mark.parametrize(
    ("before", "after", "expected", "updates"),
    [
        # 26 / 3 in epoch 1, where 0 and 40 wait; they are dropped.
        (3, 5, 26 / 3 + 66 / 5, [1, 2]),
        (3, 1, 26 / 3 + 66, [1, 6]),
        (1, 3, 66 + 26 / 3, [5, 6]),
    ],
)
def test_another_number_of_batches_per_update_begins_with_a_whole_update(tmp_path, before, after, expected, updates):
    run, x = tmp_path / "run", [4.0, 4.0, 18.0, 0.0, 40.0]
    train(line_params(x, None, run, train_accum_steps=before))
    trainer = train(line_params(x, None, run, train_accum_steps=after, epochs=2), restore=True)
    assert weight(trainer) == pytest.approx(-expected)
    assert [history(run)[epoch]["meta"]["updates"] for epoch in ("1", "2")] == updates
    log = (run / "train.log").read_text()
    assert ("gradients of 2 batches are dropped" in log) == (before == 3)


def test_checkpoints_are_counted_in_updates(tmp_path: Path) -> None:
    always = {"steps_per_execution": 1, "keep_checkpoints": 9}
    train(line_params([1.0] * 11, None, tmp_path, checkpoint_save_freq="2", train_accum_steps=2, **always))
    # An update every second batch, a checkpoint every second update.
    assert checkpoints(tmp_path) == ["epoch_0000_step_000004", "epoch_0000_step_000008", "epoch_0001"]


@pytest.mark.slow
def test_a_run_without_an_update_is_a_warning(tmp_path: Path) -> None:
    # The three batches of the second epoch complete an update with the five that wait.
    for epoch, batches in ((1, 5), (2, 3), (3, 7)):
        params = line_params([1.0] * 5, None, tmp_path / "run", train_accum_steps=8, epochs=epoch)
        params.samples_per_epoch = batches
        train(params, restore=epoch > 1)
    log = (tmp_path / "run" / "train.log").read_text()
    warning = "no weight will change: train_accum_steps is 8, but only %d batches remain"
    assert [warning % batches in log for batches in (5, 3, 7)] == [True, False, True]


def test_dropped_samples_are_counted_and_told(tmp_path: Path) -> None:
    params, file = line_params([1.0, 2.0, 3.0, 4.0], None, tmp_path, samples_per_epoch=5), tmp_path / "history.json"
    params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[DropLine()])
    params.epochs = 2
    train(params)
    # 2 4 | 2 4 | 2: before them 1 and 3 twice, and 1. Then 4 | 2 4 | 2 4: 3, and both twice.
    assert [record["meta"]["dropped"] for record in history(tmp_path).values()] == [5, 10]
    # The user may edit the history, also to what is no position.
    records = json.loads(file.read_text())
    records["2"]["meta"]["position"] = "none"
    file.write_text(json.dumps(records))
    params.epochs = 3
    train(params, restore=True)
    assert (tmp_path / "train.log").read_text().count("dropped training samples: 5 invalid") == 3


class DropLine(Processor):
    """Odd numbers are invalid."""

    def apply(self, sample: Sample) -> Sample:
        return sample.new_invalid() if sample.inputs["x"][0] % 2 else sample


@pytest.mark.slow
@pytest.mark.parametrize(
    "before", [{"n_to_go": 9}, {"n_to_go": 3, "frequency": 4}, {"n_to_go": 3, "upper_threshold": -5}]
)
def test_a_shorter_patience_counts_from_the_resume(before, tmp_path, caplog):
    def epochs_until(restore: bool = True, **fields: Any) -> int:
        params = line_params([1.0], [1.0], tmp_path / "run", epochs=12 if restore else 4)
        params.learning_rate.rates, params.learning_rate.lr = [0.0], 0.5 if restore else 1.0
        params.early_stopping = EarlyStoppingParams(**fields)
        return train(params, restore=restore).epoch

    # The weight stays 0, so that no epoch but the first one is a best one.
    assert epochs_until(restore=False, **before) == 4
    caplog.clear()
    assert epochs_until(n_to_go=3) == 7
    assert "no effect on a run that continues: --learning_rate.lr: 1.0 -> 0.5" in caplog.messages
    assert epochs_until(n_to_go=3) == 7  # it stays finished
    assert epochs_until(n_to_go=4) == 8  # a longer patience counts on
    assert epochs_until(n_to_go=-1) == 12
    params = line_params([1.0], [1.0], epochs=3, early_stopping=EarlyStoppingParams(n_to_go=1))
    assert train(params).epoch == 1
    line = "n_to_go 1 stops after the first epoch, also a best one; 2 after the first without a new best"
    assert line in caplog.messages
