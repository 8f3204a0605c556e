"""`on_error skip:N`: how many different samples failed, over epochs and restarts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from test.data.pipeline.workers.faults import FaultParams
from test.data.support import IterableRowsParams, PairParams, make_pipeline, rows
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.stream import Position

SAMPLES = 12
BAD = (2, 5, 9)


def pipeline(allowed: int, source: Any = None, before: Iterable[Any] = (), **params: Any) -> DataPipeline:
    """12 rows, of which 3 fail; the stream is always shuffled."""
    faults = [FaultParams(fault="raise", at=at) for at in BAD]
    source = rows(SAMPLES) if source is None else source
    return make_pipeline(source, [*before, *faults], batch_size=2, on_error=f"skip:{allowed}", **params)


def train(made: DataPipeline, epochs: int, start: Position | None = None) -> Position:
    """Read so many epochs of one pass each, from a checkpoint if there is one; returns the last position."""
    position = start or Position()
    for _ in range(epochs):
        with made.training_batches(position, SAMPLES - len(BAD)) as batches:
            *_, (_, position) = batches
    return Position.from_dict(json.loads(json.dumps(position.to_dict())))


@contextmanager
def giving_up(allowed: int) -> Iterator[None]:
    with pytest.raises(ZeroDivisionError, match="bad pixel") as info:
        yield
    assert f"on_error gives up after {allowed} samples that failed before" in info.value.__notes__


SOURCES = [
    pytest.param(rows(SAMPLES), {"num_processes": 0}, id="random access"),
    pytest.param(rows(SAMPLES), {"num_processes": 1}, id="worker"),
    pytest.param(IterableRowsParams(SAMPLES), {"num_processes": 0}, id="iterated"),
    pytest.param(rows(SAMPLES), {"num_processes": 0, "bucket_boundaries": [2, 3]}, id="buckets"),
]


@pytest.mark.parametrize(("source", "params"), SOURCES)
def test_a_sample_that_fails_in_every_pass_is_one_sample(source: Any, params: dict[str, Any]) -> None:
    made = pipeline(3, source, **params)
    with made:
        position = train(made, 5)
    assert sorted(position.failed) == [(at,) for at in BAD]
    assert made.dropped.failed > 2 * len(BAD)
    with giving_up(2):
        train(pipeline(2, source, **params), 2)


@pytest.mark.parametrize(("source", "params"), SOURCES)
def test_what_failed_before_a_restart_counts(source: Any, params: dict[str, Any]) -> None:
    half = train(pipeline(3, source, **params), 2)
    whole = train(pipeline(3, source, **params), 5)
    assert train(pipeline(3, source, **params), 3, half) == whole
    other = Position(half.pass_index, half.consumed, half.emitted, half.pending, ((100,), *half.failed[1:]))
    with giving_up(3):
        train(pipeline(3, source, **params), 2, other)


def test_samples_that_were_read_ahead_count_when_they_are_trained() -> None:
    # If fit has taken only the first batch: no bad sample is before it in data that are not shuffled.
    made = pipeline(3, shuffle_buffer_size=0)
    with made, made.training_batches(Position(), SAMPLES) as batches:
        positions = [position for _, position in batches]
    assert [len(position.failed) for position in positions] == [0, 1, 2, 3, 3, 3]
    again = pipeline(3, shuffle_buffer_size=0)
    assert train(again, 1, positions[0]).failed == ((2,), (5,), (9,))


def test_behind_a_generating_processor_each_pass_has_samples_of_its_own() -> None:
    # Pairs are named by their first row: in order these are 0, 2, 4 ..., so that only sample 2 of the bad ones is seen.
    made = pipeline(3, before=[PairParams()], shuffle_buffer_size=0)
    with made, made.training_batches(Position(), 12) as batches:
        positions = [position for _, position in batches]
    assert positions[-1].failed == ((0, 1, 1), (1, 1, 1), (2, 1, 1))
    # The pass is replayed from its beginning, which counts nothing twice.
    again = pipeline(3, before=[PairParams()], shuffle_buffer_size=0)
    with again, again.training_batches(positions[2], 6) as batches:
        assert [position for _, position in batches] == positions[3:]
    with giving_up(2):
        train(pipeline(2, before=[PairParams()], shuffle_buffer_size=0), 2)
