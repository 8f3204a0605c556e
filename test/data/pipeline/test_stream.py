"""The sample stream against a reference of a few lines: order, windows, exact resume."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from test.data.support import (
    DropParams,
    IterableRowsParams,
    NoiseParams,
    PairParams,
    RepeatParams,
    batch_bytes,
    epoch,
    make_pipeline,
    rows,
)
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import TfaipError


def reference_rng(seed: int, number: int, pass_index: int, index: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(counter=[0, 0, index, pass_index], key=[seed, number]))


def reference_process(
    processor: DataProcessorParams, samples: list[tuple[int, Sample]], seed: int, number: int, pass_index: int
) -> list[tuple[int, Sample]]:
    """One processor on numbered samples: mapping ones keep the numbers, generating ones count anew."""
    out: list[tuple[int, Sample]] = []
    if isinstance(processor, RepeatParams):
        rng = reference_rng(seed, number, pass_index, 0)
        repeated = [sample for _, sample in samples for _ in range(rng.integers(3))]
        return list(enumerate(repeated))
    if isinstance(processor, PairParams):
        plain = [sample for _, sample in samples]
        for first, second in zip(plain[::2], plain[1::2], strict=False):
            out.append((len(out), Sample(inputs={"x": np.append(first.inputs["x"], second.inputs["x"])})))
            out[-1][1].targets, out[-1][1].meta = first.targets, first.meta
        return out
    for index, sample in samples:
        rng = reference_rng(seed, number, pass_index, index)
        if isinstance(processor, NoiseParams):
            noise = rng.integers(processor.high)
            noisy = Sample(inputs={"x": sample.inputs["x"] + noise}, targets={"y": sample.targets["y"] + noise})
            out.append((index, noisy.new_meta(sample.meta)))
        elif rng.integers(3):
            out.append((index, sample))
    return out


def reference_stream(count: int, processors: list[DataProcessorParams], seed: int) -> Iterator[Sample]:
    pass_index = 0
    while True:
        order = np.random.default_rng([seed, pass_index]).permutation(count)
        numbered = list(enumerate(rows(count)[index] for index in order))
        streaming = False
        for number, processor in enumerate(processors):
            # Behind a generating processor each one counts what reaches it.
            numbered = list(enumerate(s for _, s in numbered)) if streaming else numbered
            numbered = reference_process(processor, numbered, seed, number, pass_index)
            streaming = streaming or isinstance(processor, (RepeatParams, PairParams))
        assume(numbered)  # a pass without samples is an error, tested below
        yield from (sample for _, sample in numbered)
        pass_index += 1


def reference_batches(stream: Iterator[Sample], num_samples: int, batch_size: int, drop: bool) -> list[Any]:
    epoch = list(islice(stream, num_samples - num_samples % batch_size if drop else num_samples))
    batches = []
    for begin in range(0, len(epoch), batch_size):
        part = epoch[begin : begin + batch_size]
        longest = max(len(s.inputs["x"]) for s in part)
        x = np.stack([np.append(s.inputs["x"], [-1.0] * (longest - len(s.inputs["x"]))) for s in part])
        y = np.stack([s.targets["y"] for s in part])
        batch = Batch({"x": x.astype("float32")}, {"y": y.astype("int32")}, [s.meta for s in part])
        batches.append(batch_bytes(batch))
    return batches


MAPPING = [NoiseParams(), DropParams()]
PROCESSORS = [*MAPPING, RepeatParams(), PairParams()]
processor_lists = st.lists(st.sampled_from(PROCESSORS), max_size=4)


@pytest.mark.slow
@given(
    processors=processor_lists,
    count=st.integers(25, 40),
    seed=st.integers(0, 2**63),
    num_samples=st.integers(1, 60),
    batch_size=st.integers(1, 9),
    drop=st.booleans(),
)
def test_epochs_are_windows_on_the_reference_stream(
    processors: list[DataProcessorParams], count: int, seed: int, num_samples: int, batch_size: int, drop: bool
) -> None:
    pipeline = make_pipeline(rows(count), processors, seed=seed, batch_size=batch_size, batch_drop_remainder=drop)
    for kept_open in (contextlib.nullcontext(), pipeline):
        reference = reference_stream(count, processors, seed)
        position = Position()
        with kept_open:
            for _ in range(3):
                expected = reference_batches(reference, num_samples, batch_size, drop)
                made = epoch(pipeline, position, num_samples)
                assert [content for content, _ in made] == expected
                position = made[-1][1] if made else position


@pytest.mark.guard
@given(
    processors=processor_lists,
    random_access=st.booleans(),
    seed=st.integers(0, 2**32),
    batch_size=st.integers(1, 7),
    stop=st.integers(0, 30),
)
def test_resume_at_any_position_gives_the_remaining_batches(
    processors: list[DataProcessorParams], random_access: bool, seed: int, batch_size: int, stop: int
) -> None:
    source = rows(25) if random_access else IterableRowsParams(count=25)

    def make() -> DataPipeline:
        return make_pipeline(source, processors, seed=seed, batch_size=batch_size, shuffle_buffer_size=8)

    try:
        whole = epoch(make(), Position(), 70)
    except TfaipError:  # a pass without samples
        assume(False)
    stop = min(stop, len(whole) - 1)
    position = Position.from_dict(json.loads(json.dumps(whole[stop][1].to_dict())))
    done = min((stop + 1) * batch_size, 70)
    rest = epoch(make(), position, 70 - done)
    assert rest == whole[stop + 1 :]
    if not random_access:
        with make() as pipeline:  # back from a place that was read further
            assert epoch(pipeline, Position(), 70) == whole
            assert epoch(pipeline, position, 70 - done) == rest
    # What was dropped is not part of the comparison of positions.
    assert [behind.dropped for _, behind in rest] == [behind.dropped for _, behind in whole[stop + 1 :]]


@pytest.mark.parametrize("processes", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_epochs_that_follow_each_other_process_a_pass_once(processes: int) -> None:
    # Behind a generating processor nobody can begin in the middle of a pass. One of 10 000 rows has 2 500 samples.
    processors = [DropParams(every=2), PairParams()]
    pipeline = make_pipeline(rows(10_000), processors, batch_size=10, num_processes=processes)
    with pipeline:
        position = Position()
        for number in range(1, 5):
            position = epoch(pipeline, position, 500)[-1][1]
            # Half of the rows are invalid, two of the others make a sample.
            assert position.emitted == 500 * number
            assert pipeline.dropped.invalid < position.consumed
        again = epoch(pipeline, Position(0, 0, 0), 10)
    assert again == epoch(make_pipeline(rows(10_000), processors, batch_size=10), Position(), 10)


def test_positions_count_raw_and_processed_samples() -> None:
    # Targets 0 .. 5 in order; 0 and 3 are dropped, so the batches of a pass are (1, 2) and (4, 5).
    pipeline = make_pipeline(rows(6), [DropParams(every=3)], batch_size=2, shuffle_buffer_size=0)
    made = epoch(pipeline, Position(), 6)
    assert [content[-1] for content, _ in made] == [[{"id": 1}, {"id": 2}], [{"id": 4}, {"id": 5}]] + [
        [{"id": 1}, {"id": 2}]
    ]
    assert [position for _, position in made] == [Position(0, 3, 2), Position(0, 6, 4), Position(1, 3, 2)]
    assert pipeline.dropped.invalid == 3  # 0 and 3 in the first pass, 0 in the second


@pytest.mark.parametrize("source", [[], rows(4)], ids=["no sample", "all dropped"])
@pytest.mark.parametrize("mode", [PipelineMode.TRAINING, PipelineMode.EVALUATION])
def test_a_pass_without_valid_samples_is_an_error(source: list[Sample], mode: PipelineMode) -> None:
    pipeline = make_pipeline(source, [DropParams(every=1)], mode=mode)
    with pipeline.generate_input_batches() as batches, pytest.raises(TfaipError, match="no valid sample") as info:
        next(batches)
    assert f"dropped so far: {len(source)} invalid" in str(info.value)


def test_an_iterator_that_is_used_up_is_an_error_in_the_second_pass() -> None:
    pipeline = make_pipeline(RawDataGeneratorParams(samples=iter(rows(3))), batch_size=2)
    with pipeline.training_batches(Position(), 4) as batches:
        next(batches)
        with pytest.raises(TfaipError, match="pass 1 over the training data has no valid sample"):
            next(batches)


VALID = {"pass_index": 0, "consumed": 0, "emitted": 0, "pending": [1, 4]}


def test_positions_survive_json() -> None:
    for position in (Position(3, 9, 7, (1, 4)), Position(0, 1, 0, failed=4)):
        assert Position.from_dict(json.loads(json.dumps(position.to_dict()))) == position
    assert Position(0, 0, 0, (1, 4)).to_dict() == VALID
    dropped = Position(0, 5, 2, dropped=(2, 0, 1))
    assert Position.from_dict(json.loads(json.dumps(dropped.to_dict()))).dropped == (2, 0, 1)


def test_damaged_positions_are_refused(subtests: pytest.Subtests) -> None:
    for values in (
        [{}, {key: 0 for key in VALID if key != "pending"}, {**VALID, "extra": 1}]
        + [{**VALID, "emitted": wrong} for wrong in (-1, "0", True, [0])]
        + [{**VALID, "pending": wrong} for wrong in (None, [-1], ["1"], [[1]], "12")]
        + [{**VALID, "dropped": wrong} for wrong in (None, [1, 2], [1, 2, -1], [[1], 2, 3], "123")]
        + [{**VALID, "failed": wrong} for wrong in (None, -1, [1], "1", True)]
    ):
        with subtests.test(values=values), pytest.raises(ValueError, match="a data position needs"):
            Position.from_dict(values)
