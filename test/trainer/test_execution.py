"""Executions of several steps, windows of updates, what an epoch counts, and resuming with other params."""

import contextlib
import json
from pathlib import Path
from typing import Any

import keras
import pytest

from test.events.test_writer import points
from test.support.runs import checkpoints, history, latest
from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import CallbackOf, StopAt, line_params, train, weight
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import Processor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.errors import UsageError
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.run.output import Checkpoint, read_checkpoint
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.scheduler.rules import CyclicModulationParams
from tfaip.trainer.signals import TrainingInterrupted

IS_JAX = keras.backend.backend() == "jax"


def params(run: Path, steps: int | None) -> Any:
    """Params of a training with dropout, clips, averages, accumulation and a smaller last batch."""
    made = tiny_params(run, steps_per_execution=steps, epochs=2, samples_per_epoch=42, calc_ema=0.9)
    made.optimizer.clip_norm, made.optimizer.clip_global_norm, made.train_accum_steps = 0.5, 1.0, 2
    made.optimizer.gradient_noise.stddev = 0.01
    return made


def newest(run: Path) -> Checkpoint:
    return read_checkpoint(run / "checkpoint" / latest(run))


def content(checkpoint: Checkpoint) -> dict[str, Any]:
    """All arrays, bit for bit, and the values of all epochs."""
    values = {number: record["values"] for number, record in json.loads(checkpoint.state["history"]).items()}
    return {**{name: array.tobytes() for name, array in checkpoint.arrays.items()}, **values}


@pytest.mark.slow
@pytest.mark.backend
def test_any_number_of_steps_per_execution_gives_the_same_bits(tmp_path: Path) -> None:
    runs = {}
    for steps in (1, None):
        run = tmp_path / f"run_{steps}"
        TinyScenario.create_trainer(params(run, steps)).train()
        runs[steps] = newest(run)
    # Executions of seven steps, stopped in the second epoch, and then of three: none ends where another does.
    run = tmp_path / "resumed"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(params(run, 7)).train([StopAt(2, 7)])
    assert newest(run).state["step"] == 7
    TinyScenario.create_trainer(params(run, 3), restore=True).train()
    whole = content(runs[1])
    assert any(name.startswith("optimizer/velocity") for name in whole)
    for checkpoint in (runs[None], newest(run)):
        other = content(checkpoint)
        assert [name for name in whole if other[name] != whole[name]] == []


# The losses are those of x, since the weight stays 1. Windows of 3, 3 and 1 of 7 updates; the rate of the last one of
# each, where rates are 1, 1/2, 1/4, 1, ...
RATE = 2.0**-100
WHOLE = [(3, 2.0, 0.25), (6, 5.0, 0.25), (7, 7.0, 1.0), (10, 2.0, 1.0), (13, 5.0, 1.0), (14, 7.0, 0.5)]


def windows_of(output_dir: Path | None, every: int = 3, interrupted: bool = False, **fields: Any) -> list[Any]:
    restore = fields.pop("restore", False)
    params = line_params([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], None, output_dir, epochs=2, **fields)
    params.scenario.model.start, params.log_every_n_updates = 1.0, every
    params.learning_rate = ConstantParams(lr=RATE, modulation=CyclicModulationParams(interval_steps=3, decay=0.5))
    seen: list[tuple[int, float, float]] = []

    def keep(update: int, logs: dict[str, float]) -> None:
        assert logs["loss"] == logs["distance"]
        seen.append((update, logs["loss"], logs["lr"] / RATE))

    with pytest.raises(TrainingInterrupted) if interrupted else contextlib.nullcontext():
        train(params, CallbackOf(on_log=keep), *[StopAt(1, 5)] * interrupted, restore=restore)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("steps", [None, 1, 7])
@pytest.mark.backend
def test_the_means_of_each_window_in_callbacks_and_events(steps: int | None, tmp_path: Path) -> None:
    assert windows_of(tmp_path / "run", steps_per_execution=steps) == WHOLE
    losses = points(tmp_path / "run" / "updates", "updates/loss")
    assert list(losses) == [(update, loss) for update, loss, _ in WHOLE]
    rates = points(tmp_path / "run" / "updates", "updates/lr")
    assert list(rates) == [(update, rate * RATE) for update, _, rate in WHOLE]


@pytest.mark.backend
def test_an_open_window_goes_on_after_a_resume(tmp_path: Path) -> None:
    before = windows_of(tmp_path / "run", interrupted=True, steps_per_execution=1)
    assert before == WHOLE[:1]
    # Executions of at most 2 batches, of which the first ends the window after one.
    assert windows_of(tmp_path / "run", restore=True, steps_per_execution=2) == WHOLE[1:]
    assert list(points(tmp_path / "run" / "updates", "updates/loss")) == [window[:2] for window in WHOLE]


@pytest.mark.backend
def test_windows_of_updates_of_several_batches() -> None:
    found = windows_of(None, every=2, train_accum_steps=2)
    # The update of the last batch of the first epoch ends in the second one.
    assert [window[:2] for window in found] == [(2, 2.5), (3, 6.0), (5, 2.5), (7, 6.0)]


def tiny_params(directory: Path, **kwargs: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(directory), 3, 1
    params.export_best = params.export_final = False
    for name, value in kwargs.items():
        setattr(params, name, value)
    return params


@pytest.mark.slow
@pytest.mark.backend
def test_an_epoch_goes_on_with_batches_of_another_size(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(tiny_params(run)).train([StopAt(1, 6)])
    before = newest(run).state
    assert [before[name] for name in ("epoch", "step", "samples")] == [0, 6, 24]
    params = tiny_params(run)
    params.gen.setup.train.batch_size = 8
    TinyScenario.create_trainer(params, restore=True).train()
    # 44 samples: 6 batches of 4, then 8 + 8 + 4.
    state = newest(run).state
    assert json.loads(state["history"])["1"]["meta"]["updates"] == 9
    assert [state[name] for name in ("epoch", "step", "samples", "seconds")] == [1, 0, 0, 0]
    # A pass has 30 samples: the epoch ended 14 samples into the second.
    assert (state["position"]["pass_index"], state["position"]["consumed"]) == (1, 14)
    # The seconds of an epoch count over resumes.
    assert json.loads(state["history"])["1"]["meta"]["seconds"] > round(before["seconds"], 3) > 0
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
    params = line_params([1.0, 2.0, 3.0, 4.0], None, tmp_path, samples_per_epoch=5)
    params.scenario.data.pre_proc = SequentialProcessorPipelineParams(processors=[DropLine()])
    params.epochs = 2
    train(params)
    # 2 4 | 2 4 | 2: before them 1 and 3 twice, and 1. Then 4 | 2 4 | 2 4: 3, and both twice.
    assert [record["meta"]["dropped"] for record in history(tmp_path).values()] == [5, 10]
    assert (tmp_path / "train.log").read_text().count("dropped training samples: 5 invalid") == 2


class DropLine(Processor):
    """Odd numbers are invalid."""

    def apply(self, sample: Sample) -> Sample:
        return sample.new_invalid() if sample.inputs["x"][0] % 2 else sample


@pytest.mark.slow
def test_a_shorter_patience_counts_from_the_resume(tmp_path, caplog):
    def epochs_until(restore: bool = True, **fields: Any) -> int:
        params = line_params([1.0], [1.0], tmp_path / "run", epochs=12 if restore else 4)
        params.learning_rate.rates, params.learning_rate.lr = [0.0], 0.5 if restore else 1.0
        params.early_stopping = EarlyStoppingParams(**fields)
        return train(params, restore=restore).epoch

    # The weight stays 0, so that no epoch but the first one is a best one.
    assert epochs_until(restore=False, n_to_go=9) == 4
    caplog.clear()
    assert epochs_until(n_to_go=3) == 7
    assert "no effect on a run that continues: --learning_rate.lr: 1.0 -> 0.5" in caplog.messages
    assert epochs_until(n_to_go=3) == 7  # it stays finished
    assert epochs_until(n_to_go=4) == 8  # a longer patience counts on
    assert epochs_until(n_to_go=-1) == 12
