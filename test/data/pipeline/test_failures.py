"""Mistakes in generators and processors, and `on_error skip:N` over epochs and restarts."""

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from test.data.faults import FaultParams
from test.data.support import (
    IterableRowsParams,
    NoiseParams,
    Pair,
    Repeat,
    batch_ids,
    epoch,
    make_pipeline,
    row,
    rows,
)
from tfaip import Generator, Sample
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import Position

SAMPLES = 12
BAD = (2, 5, 9)


def pipeline(allowed: int, source: Any = None, before: Iterable[Any] = (), **params: Any) -> DataPipeline:
    """12 rows, of which 3 fail; the stream is always shuffled."""
    faults = [FaultParams(fault="raise", at=at) for at in BAD]
    source = rows(SAMPLES) if source is None else source
    params = {"num_processes": 0, "batch_size": 2, **params}
    return make_pipeline(source, [*before, *faults], on_error=f"skip:{allowed}", **params)


def train(made: DataPipeline, epochs: int, start: Position | None = None) -> Position:
    """Read so many epochs of one pass each, from a checkpoint if there is one; returns the last position."""
    position = start or Position()
    for _ in range(epochs):
        position = epoch(made, position, SAMPLES - len(BAD))[-1][1]
    return Position.from_dict(json.loads(json.dumps(position.to_dict())))


@contextmanager
def giving_up(allowed: int) -> Iterator[None]:
    with pytest.raises(ZeroDivisionError, match="bad pixel") as info:
        yield
    note = f"on_error gives up after {allowed} samples that failed before in this pass"
    assert (note in info.value.__notes__) == (allowed > 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "params"),
    [
        (rows(SAMPLES), {}),
        (rows(SAMPLES), {"num_processes": 1}),
        (IterableRowsParams(SAMPLES), {}),
        (rows(SAMPLES), {"bucket_boundaries": [2, 3]}),
    ],
    ids=["random access", "worker", "iterated", "buckets"],
)
def test_the_samples_that_fail_are_counted_in_each_pass_also_after_a_restart(source: Any, params: Any) -> None:
    made = pipeline(3, source, **params)
    with made:
        half = train(made, 2)
        whole = train(made, 3, half)
    assert made.dropped.failed > 2 * len(BAD)
    assert train(pipeline(3, source, **params), 3, half) == whole
    with giving_up(2):
        train(pipeline(2, source, **params), 2)
    if source == rows(SAMPLES):
        with giving_up(3):
            train(pipeline(3, source, **params), 2, replace(half, failed=3, consumed=0, emitted=0, pending=()))


@pytest.mark.parametrize(
    ("before", "allowed", "samples", "counts"),
    [
        # Batches 5 and 6 begin in the second pass, whose first bad sample is in the last batch.
        ([], 3, SAMPLES, [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]),
        # Pairs are named by their first row: in order these are 0, 2, 4 ..., so that only sample 2 of the bad ones is
        # seen. The pass is replayed from its beginning, which counts nothing twice.
        ([Pair()], 1, 12, [(0, 1), (0, 1), (1, 0), (1, 1), (1, 1), (2, 1)]),
    ],
)
def test_what_was_read_ahead_counts_when_it_is_trained(before: Any, allowed: int, samples: int, counts: Any) -> None:
    made = epoch(pipeline(allowed, before=before, shuffle_buffer_size=0), num_samples=samples)
    positions = [position for _, position in made]
    assert [(position.pass_index, position.failed) for position in positions] == counts
    for place in (1, 2):
        rest = epoch(pipeline(allowed, before=before, shuffle_buffer_size=0), positions[place], samples - 2 * place - 2)
        assert [position for _, position in rest] == positions[place + 1 :]
    with giving_up(allowed - 1):
        train(pipeline(allowed - 1, before=before, shuffle_buffer_size=0), 1)


@pytest.mark.parametrize("before", [[], [Repeat()]], ids=["mapping", "after a generating one"])
def test_predictions_that_cannot_be_post_processed_are_left_out(before: list[Any]) -> None:
    params: Any = {"post_proc": [*before, FaultParams(fault="raise", at=2)], "num_processes": 0, "on_error": "skip:3"}
    made = make_pipeline(IterableRowsParams(), mode="prediction", **params)
    kept = {sample.meta["id"] for sample in made.process_output(rows(20))}
    assert 2 not in kept
    assert len(kept) > 5
    assert 1 <= made.dropped.failed <= 2


class Wrong(Generator):
    """Six rows, of which the fourth is none."""

    random_access: bool = True

    def __len__(self) -> int:
        return 6

    def has_random_access(self) -> bool:
        return self.random_access

    def generate(self) -> Iterable[Any]:
        return [None if index == 3 else row(index) for index in range(6)]

    def __getitem__(self, index: int) -> Any:
        return list(self.generate())[index]


@pytest.mark.parametrize("preloads", [False, True])
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (Wrong(), r"^Wrong\[3\] gave None, expected a Sample"),
        (Wrong(random_access=False), r"^Wrong.generate gave None, expected a Sample"),
    ],
)
def test_a_generator_that_gives_no_sample(params: Wrong, message: str, preloads: bool) -> None:
    wrong = make_pipeline(params, [NoiseParams()], batch_size=2, num_processes=0)
    with pytest.raises(TypeError, match=message) as info:
        epoch(wrong.as_preloaded() if preloads else wrong)
    assert (info.value.__notes__[0] == "while Wrong read sample 3") == params.random_access


@pytest.mark.parametrize("processes", [0, 2])
def test_a_sample_that_does_not_fit_the_specs_fails_alone(processes: int, caplog: pytest.LogCaptureFixture) -> None:
    samples = rows(7)
    samples[2] = Sample(inputs={"x": [2.0, None]}, targets={"y": [2]}, meta={"id": 2})
    samples[5] = Sample(inputs={"x": [5.0]}, targets={"y": ["five"]}, meta={"id": 5})
    params: Any = {"mode": "evaluation", "batch_size": 2, "num_processes": processes}
    caplog.set_level("INFO")
    made = make_pipeline(samples, on_error="skip", **params)
    with made.drops_logged():
        assert batch_ids(made) == [[0, 1], [3, 4], [6]]
    assert made.dropped.failed == 2
    assert caplog.messages[-1] == "dropped evaluation samples: 0 invalid, 0 too long, 2 failed"
    assert "inputs['x'] is [2.0, None], expected float32" in caplog.messages[-3]
    with pytest.raises(TypeError, match="(?s)'x'.* is .2.0, None., expected float32.*meta of the sample: {'id': 2}"):
        batch_ids(make_pipeline(samples, **params))
