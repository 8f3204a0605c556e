"""One pass of batches through a model: order of the work, rounds of several processes, stops and counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from test.support.tiny.scenario import TinyData, TinyGenerator
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.device.devices import Devices
from tfaip.predict.modelpass import BenchmarkResults, EvaluationStopped, run_pass, samples_of

Start = Callable[[Batch], dict[str, Any]]


def five_batches() -> DataPipeline:
    """Nine samples in batches of two."""
    params = DataPipelineParams(batch_size=2, num_processes=0)
    return TinyData().create().create_pipeline(params, TinyGenerator(samples=9)).to_mode(PipelineMode.PREDICTION)


def doubling(events: list[str]) -> Start:
    """Return a model that notes which of its batches it gets."""

    def start(batch: Batch) -> dict[str, Any]:
        events.append(f"start {len([event for event in events if event.startswith('start')])}")
        return {"y": batch.inputs["x"] * 2}

    return start


@pytest.mark.parametrize(
    ("read_ahead", "expected"),
    [
        (0, ["start 0", "sample", "sample", "start 1", "sample"]),
        (1, ["start 0", "start 1", "sample", "sample", "start 2", "sample"]),
    ],
)
def test_a_batch_is_started_when_the_samples_before_it_were_taken(read_ahead: int, expected: list[str]) -> None:
    events: list[str] = []
    benchmark = BenchmarkResults()
    samples = run_pass(five_batches(), doubling(events), samples_of, benchmark, read_ahead=read_ahead)
    assert events == []
    for _ in range(3):
        sample = next(samples)
        events.append("sample")
        np.testing.assert_array_equal(sample.outputs["y"], sample.inputs["x"] * 2)
    assert events == expected
    assert (benchmark.samples, benchmark.batches) == (4, 2)
    assert len(list(samples)) == 6
    assert (benchmark.samples, benchmark.batches) == (9, 5)
    assert 0 < benchmark.first_batch_s <= benchmark.model_s <= benchmark.wall_s


@pytest.mark.parametrize(("process_id", "has_batch"), [(0, [True, True, True]), (1, [True, True, False])])
def test_each_process_starts_its_batch_of_a_round(process_id: int, has_batch: list[bool]) -> None:
    """Five batches in rounds of two; what a process collects stands in for the outputs of both."""
    events: list[str] = []
    collected: list[bool] = []

    def collect(own: Any) -> list[Any]:
        collected.append(own is not None)
        return [{"y": np.zeros(2)}, {"y": np.ones(2)}] if len(collected) < 3 else [{"y": np.full(1, 2.0)}]

    benchmark = BenchmarkResults()
    devices = Devices(num_processes=2, process_id=process_id)
    passed = run_pass(five_batches(), doubling(events), samples_of, benchmark, devices=devices, collect=collect)
    assert [sample.outputs["y"] for sample in passed] == [0, 0, 1, 1, 0, 0, 1, 1, 2]
    assert collected == has_batch
    assert len(events) == sum(has_batch)
    assert (benchmark.samples, benchmark.batches) == (9, 5)


def test_a_process_may_make_no_samples() -> None:
    benchmark = BenchmarkResults()
    passed = run_pass(five_batches(), doubling([]), samples_of, benchmark, collect=lambda _: [])
    assert list(passed) == []
    assert (benchmark.samples, benchmark.batches) == (9, 5)


def take(samples: Iterable[Any], taken: list[Any]) -> None:
    for sample in samples:
        taken.append(sample)


def test_a_stop_comes_after_the_samples_of_a_round() -> None:
    events: list[str] = []
    taken: list[Any] = []
    passed = run_pass(
        five_batches(), doubling(events), samples_of, BenchmarkResults(), should_stop=lambda: len(taken) == 4
    )
    with pytest.raises(EvaluationStopped):
        take(passed, taken)
    assert len(taken) == 4
    assert events == ["start 0", "start 1"]
