"""Data whose difficulty changes from epoch to epoch: the samples of each epoch, with workers and after a resume."""

from functools import partial
from pathlib import Path
from typing import Any

import keras
import pytest

from test.trainer.line import CallbackOf
from test.trainer.rows import ScaledParams
from test.trainer.schedules.support import step
from test.trainer.test_data_options import SumsScenario, sums_params
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.sampler import Position
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.trainer.scheduledvalues import ScheduleParams
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stagedrun import Run
from tfaip.trainer.stages.params import TrainStage
from tfaip.trainer.stages.program import preview_stages
from tfaip.trainer.training import Training
from tfaip.trainer.warmstart.warmstarter import WarmStarter

# The length of a sample is its meta plus 1.
LENGTHS = list(range(1, 13))
SHORT_FIRST = [ScheduleParams("setup.train.max_element_length", {0: 4, 2: 12}), step("train.batch_size", 2, 2, 3)]


def growing(output_dir: Path | None = None, workers: int = 0, **fields: Any) -> Any:
    """Three epochs of 6 samples: at most 4, 8 and 12 long."""
    always = {"epochs": 3, "samples_per_epoch": 6, "schedules": SHORT_FIRST}
    params = sums_params(LENGTHS, output_dir, **(always | fields))
    params.gen.setup.train.shuffle_buffer_size = -1
    params.gen.setup.train.num_processes = workers
    return params


def setup_of(params: Any) -> Training:
    """The parts of a training at its beginning."""
    scenario = SumsScenario(params.scenario)
    preview, warmstarter = preview_stages(params, scenario), partial(WarmStarter, params.warmstart)
    with Run(params, scenario, preview, None, Devices(), StopRequest(), warmstarter) as run:
        run.begin()
    return run.training


def batches_of_epochs(setup: Training, read: Any, first: int = 1, stop_after: int | None = None) -> list[list[Any]]:
    """What `read` returns of each batch of each epoch, from the state of the setup on, without the training.

    It stops after batches of the first epoch, if their number is given.
    """
    found, progress = [], setup.state.progress
    with setup.opened():
        for number in range(first, setup.params.epochs + 1):
            setup.begin_epoch(number)
            batches: list[Any] = []
            left = setup.epoch_samples() - progress.samples
            with setup.train_data.training_batches(progress.position, left) as stream:
                for batch, position in stream:
                    batches.append(read(batch))
                    progress.step, progress.samples = progress.step + 1, progress.samples + batch.size
                    progress.position = Position.from_dict(position.to_dict())
                    if len(batches) == stop_after:
                        return [batches]
            found.append(batches)
            progress.begin_epoch_after(number)
    return found


def samples_of_epochs(setup: Training, first: int = 1, stop_after: int | None = None) -> list[list[list[int]]]:
    """The metas of each batch of each epoch."""
    return batches_of_epochs(setup, lambda batch: list(batch.meta), first, stop_after)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_samples_of_each_epoch(workers: int) -> None:
    found = samples_of_epochs(setup_of(growing(workers=workers)))
    assert [[len(batch) for batch in batches] for batches in found] == [[2, 2, 2], [2, 2, 2], [3, 3]]
    flat = [[meta for batch in batches for meta in batch] for batches in found]
    # An epoch of 6 samples of which 4 are short enough: a pass and a half.
    assert sorted(flat[0][:4]) == [0, 1, 2, 3]
    assert len(set(flat[0][4:])) == 2
    assert max(flat[0]) < 4 <= max(flat[1]) < 8
    assert len(set(flat[1])) == 6
    assert found == samples_of_epochs(setup_of(growing()))


def test_an_epoch_of_another_difficulty_begins_with_a_new_pass() -> None:
    whole = samples_of_epochs(setup_of(growing(samples_per_epoch=2)))
    setup = setup_of(growing(samples_per_epoch=2))
    setup.state.progress.epoch, setup.state.progress.position = 1, Position(consumed=5, emitted=2, failed=1)
    assert samples_of_epochs(setup, first=2) == whole[1:]
    position = setup.state.progress.position
    assert (position.pass_index, position.failed) == (2, 0)  # `on_error skip:N` counts in each pass


def test_a_stage_without_the_schedule_ends_its_pass() -> None:
    # Samples of any length, then short ones, though no param of the data differs.
    schedules = [ScheduleParams("setup.train.max_element_length", {0: 4})]
    stages = {"a": TrainStage(epochs=1, overrides={"train.max_element_length": "None"})}
    params = growing(samples_per_epoch=3, epochs=2, schedules=schedules, stages=stages)
    trainer = SumsScenario.create_trainer(params)
    trainer.train()
    positions = [trainer.history[epoch].meta["position"] for epoch in (1, 2)]
    assert [(position["pass_index"], position["emitted"]) for position in positions] == [(0, 3), (1, 3)]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resume_within_an_epoch(workers: int) -> None:
    whole = samples_of_epochs(setup_of(growing()))
    first, second = setup_of(growing(workers=workers)), setup_of(growing(workers=workers))
    samples_before = samples_of_epochs(first, stop_after=2)
    second.state.progress = first.state.progress
    rest = samples_of_epochs(second)
    assert [samples_before[0] + rest[0], *rest[1:]] == whole


def outcome(params: Any, *callbacks: keras.callbacks.Callback, **arguments: Any) -> tuple[list[Any], float]:
    logs: list[dict[str, float]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))
    trainer = SumsScenario.create_trainer(params, **arguments)
    trainer.train([keep, *callbacks])
    return logs, float(keras.ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0])


def test_fields_of_generators_and_processors() -> None:
    always = {"epochs": 2, "samples_per_epoch": 12, "preload_data": True}
    setup = setup_of(growing(schedules=[step("gen.train.lengths.0", 1, 7)], **always))
    found = batches_of_epochs(setup, lengths_and_sums)
    rows = [sorted(row for batch in batches for row in batch) for batches in found]
    assert rows == [[(0, first), *((meta, meta + 1.0) for meta in range(1, 12))] for first in (1.0, 7.0)]
    assert setup.params.gen.train.lengths == LENGTHS
    schedules = [step("data.pre_proc.processors.0.factor", 1, 3)]
    params = growing(schedules=schedules, **always)
    params.scenario.data.pre_proc.processors = [ScaledParams(modes={PipelineMode.TRAINING})]
    logs, weight = outcome(params)
    # Six batches of two rows with the mean length 6.5, then three times as much.
    assert weight == -4 * 6 * 6.5
    assert logs[1]["schedule/data.pre_proc.processors.0.factor"] == 3


def lengths_and_sums(batch: Any) -> list[tuple[int, float]]:
    """Meta and length of the rows of ones."""
    return [(meta, float(row.sum())) for meta, row in zip(batch.meta, batch.inputs["x"], strict=True)]


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (step("val.batch_size", 1.0), "target is 'val.batch_size', expected no value of the validation data"),
        # A value of a later epoch.
        (step("train.batch_size", 2, 0), r"points\[1.0\] is 0.0, expected .*at least 1: change --schedules.0.points"),
        (step("train.bucket_boundaries.0", 2, 9), r"bucket_boundaries is \[9, 8\], expected rising lengths"),
    ],
)
def test_what_the_data_cannot_have_is_refused_before_the_first_epoch(
    schedule: ScheduleParams, message: str, tmp_path: Path
) -> None:
    params = growing(tmp_path / "run", schedules=[schedule])
    params.gen.setup.train.bucket_boundaries = [4, 8]
    with pytest.raises(UsageError, match=message):
        outcome(params)
    assert not (tmp_path / "run").exists()
