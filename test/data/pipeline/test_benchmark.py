"""The measurements of an input pipeline: numbers that were worked out, and a pipeline whose slow part is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from test.data.pipeline.workers.faults import FilesParams, Slow, SlowParams
from test.data.support import DropParams, PairParams, RepeatParams, make_pipeline, rows
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.benchmark import (
    Stage,
    StageTimes,
    Throughput,
    measure_stages,
    measure_throughput,
)
from tfaip.trainer.tools.inputbenchmark import measure_ceiling


def batch(size: int) -> Batch:
    return Batch({"x": np.zeros([size, 3], "float32")}, {"y": np.zeros([size, 1], "int64")}, [None] * size)


def test_rates_begin_behind_the_first_batch() -> None:
    done = Throughput()
    assert (done.samples_per_s, done.mb_per_s) == (0, 0)
    for size, seconds in ((10, 3.0), (10, 0.5), (10, 1.0), (10, 0.5)):
        done.add(batch(size), seconds)
    assert (done.batches, done.samples, done.seconds) == (4, 40, 5.0)
    assert (done.first_s, done.longest_s) == (3.0, 1.0)
    assert done.samples_per_s == 30 / 2
    assert done.nbytes == 40 * (3 * 4 + 8)
    assert done.mb_per_s == pytest.approx(30 * 20 / 2 / 1e6)


def test_workers_share_what_can_run_in_them() -> None:
    stages = [Stage("generator", 0.001, True), Stage("A", 0.005, True), Stage("B", 0.002, False)]
    times = StageTimes(stages, transport_s=0.0005)
    assert times.sample_s == pytest.approx(0.008)
    assert times.samples_per_s(0) == pytest.approx(125)
    assert times.samples_per_s(1) == pytest.approx(1 / 0.006)
    assert times.samples_per_s(2) == pytest.approx(1 / 0.003)
    assert times.samples_per_s(4) == pytest.approx(1 / 0.0025)  # B and the transport
    assert times.samples_per_s(8) == pytest.approx(1 / 0.0025)


def test_stages_show_where_the_time_goes() -> None:
    processors = [DropParams(every=3), SlowParams(seconds=0.005), RepeatParams(), PairParams()]
    times = measure_stages(make_pipeline(rows(20), processors, batch_size=2), 0.4)
    assert times is not None
    assert [stage.name for stage in times.stages] == ["generator", "Drop", "Slow", "Repeat", "Pair", "batching"]
    # The samples are in memory; what comes behind the first generating processor runs in one process.
    assert [stage.in_workers for stage in times.stages] == [False, True, True, False, False, False]
    # Each of the samples came once on average (0, 1 or 2 times), and two of them made one. Other stages may have waited
    # for a busy machine, so that nothing is known of their times.
    assert times.stages[2].sample_s > 0.005
    assert times.transport_s > 0


@pytest.mark.parametrize(
    ("source", "processors", "params", "in_workers"),
    [
        (rows(20), [DropParams(every=3)], {}, [False, True, True]),
        (rows(20), [DropParams(every=3)], {"max_element_length": 3}, [False, True, False]),
        (FilesParams(), [], {}, [True, True]),
    ],
)
def test_what_can_run_in_workers(source: Any, processors: list[Any], params: Any, in_workers: list[bool]) -> None:
    times = measure_stages(make_pipeline(source, processors, batch_size=2, **params), 0.5)
    assert times is not None
    assert [stage.in_workers for stage in times.stages] == in_workers


def test_no_data_or_no_time_no_stages() -> None:
    assert measure_stages(make_pipeline([]), 10.0) is None
    assert measure_stages(make_pipeline(rows(20), [SlowParams(seconds=0.005)], batch_size=4), 0.0) is None


def test_throughput_reads_pass_after_pass() -> None:
    pipeline = make_pipeline(rows(5), [DropParams(every=5)], batch_size=4)
    done = measure_throughput(pipeline, lambda done: done.batches == 3)
    assert (done.batches, done.samples) == (3, 12)
    assert pipeline.dropped.invalid == 3
    assert done.samples_per_s > 0


@pytest.mark.parametrize("boundaries", [[], [2, 3]])
def test_the_ceiling_is_that_of_batches_that_are_there(boundaries: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    monkeypatch.setattr(Slow, "apply", lambda self, sample: (seen.append(sample), sample)[1])
    pipeline = make_pipeline(rows(6), [SlowParams(seconds=0.005)], batch_size=2, bucket_boundaries=boundaries)
    assert measure_ceiling(pipeline, 0.2) > 0
    assert len(seen) == 6
