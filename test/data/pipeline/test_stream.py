"""The sample stream against a reference of a few lines: order, windows, exact resume."""

import contextlib
import json
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from test.data.support import (
    Drop,
    IterableRows,
    IterableRowsParams,
    NoiseParams,
    Pair,
    Repeat,
    batch_bytes,
    batch_ids,
    epoch,
    make_pipeline,
    row,
    rows,
)
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.sampler import Position, Sampler, buffer_shuffle
from tfaip.errors import TfaipError


def reference_process(
    processor: Any, samples: list[tuple[int, Sample]], seed: int, number: int, pass_index: int
) -> list[tuple[int, Sample]]:
    """One processor on numbered samples: mapping ones keep the numbers, generating ones count anew."""

    def rng(index: int) -> np.random.Generator:
        return np.random.Generator(np.random.Philox(counter=[0, 0, index, pass_index], key=[seed, number]))

    out: list[tuple[int, Sample]] = []
    if isinstance(processor, Repeat):
        draws = rng(0)
        return list(enumerate(sample for _, sample in samples for _ in range(draws.integers(3))))
    if isinstance(processor, Pair):
        for (_, first), (_, second) in zip(samples[::2], samples[1::2], strict=False):
            x = np.append(first.inputs["x"], second.inputs["x"])
            out.append((len(out), Sample(inputs={"x": x}, targets=first.targets, meta=first.meta)))
        return out
    for index, sample in samples:
        if isinstance(processor, NoiseParams):
            noise = rng(index).integers(processor.high)
            x, y = sample.inputs["x"] + noise, sample.targets["y"] + noise
            out.append((index, Sample(inputs={"x": x}, targets={"y": y}, meta=sample.meta)))
        elif rng(index).integers(3):
            out.append((index, sample))
    return out


def reference_stream(size: int, processors: list[Any], seed: int) -> Iterator[Sample]:
    for pass_index in count():
        order = np.random.default_rng([seed, pass_index]).permutation(size)
        numbered = list(enumerate(rows(size)[index] for index in order))
        streaming = False
        for number, processor in enumerate(processors):
            # Behind a generating processor each one counts what reaches it.
            numbered = list(enumerate(s for _, s in numbered)) if streaming else numbered
            numbered = reference_process(processor, numbered, seed, number, pass_index)
            streaming = streaming or isinstance(processor, Repeat | Pair)
        assume(numbered)  # a pass without samples is an error, tested below
        yield from (sample for _, sample in numbered)


def reference_batches(stream: Iterator[Sample], num_samples: int, batch_size: int, drop: bool) -> list[Any]:
    samples = list(islice(stream, num_samples - num_samples % batch_size if drop else num_samples))
    batches = []
    for begin in range(0, len(samples), batch_size):
        part = samples[begin : begin + batch_size]
        longest = max(len(s.inputs["x"]) for s in part)
        x = np.stack([np.append(s.inputs["x"], [-1.0] * (longest - len(s.inputs["x"]))) for s in part])
        y = np.stack([s.targets["y"] for s in part])
        batches.append(batch_bytes(Batch({"x": x.astype("float32")}, {"y": y.astype("int32")}, [s.meta for s in part])))
    return batches


processor_lists = st.lists(st.sampled_from([NoiseParams(), Drop(), Repeat(), Pair()]), max_size=4)


@pytest.mark.slow
@given(
    processors=processor_lists,
    size=st.integers(25, 40),
    seed=st.integers(0, 2**63),
    num_samples=st.integers(1, 60),
    batch_size=st.integers(1, 9),
    drop=st.booleans(),
)
def test_epochs_are_windows_on_the_reference_stream(
    processors: list[Any], size: int, seed: int, num_samples: int, batch_size: int, drop: bool
) -> None:
    pipeline = make_pipeline(rows(size), processors, seed=seed, batch_size=batch_size, batch_drop_remainder=drop)
    for kept_open in (contextlib.nullcontext(), pipeline):
        reference, position = reference_stream(size, processors, seed), Position()
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
    processors: list[Any], random_access: bool, seed: int, batch_size: int, stop: int
) -> None:
    source = rows(25) if random_access else IterableRowsParams(count=25)

    def make() -> DataPipeline:
        return make_pipeline(source, processors, seed=seed, batch_size=batch_size, shuffle_buffer_size=8)

    try:
        whole = epoch(make(), num_samples=70)
    except TfaipError:  # a pass without samples
        assume(False)
    stop = min(stop, len(whole) - 1)
    position = Position.from_dict(json.loads(json.dumps(whole[stop][1].to_dict())))
    left = 70 - min((stop + 1) * batch_size, 70)
    rest = epoch(make(), position, left)
    assert rest == whole[stop + 1 :]
    if not random_access:
        with make() as pipeline:  # back from a place that was read further
            assert epoch(pipeline, num_samples=70) == whole
            assert epoch(pipeline, position, left) == rest
    # What was dropped is not part of the comparison of positions.
    assert [behind.dropped for _, behind in rest] == [behind.dropped for _, behind in whole[stop + 1 :]]


@pytest.mark.parametrize("processes", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_epochs_that_follow_each_other_process_a_pass_once(processes: int) -> None:
    # Behind a generating processor nobody can begin in the middle of a pass. One of 10 000 rows has 2 500 samples.
    processors = [Drop(every=2), Pair()]
    pipeline = make_pipeline(rows(10_000), processors, batch_size=10, num_processes=processes)
    with pipeline:
        position = Position()
        for number in range(1, 5):
            position = epoch(pipeline, position, 500)[-1][1]
            # Half of the rows are invalid, two of the others make a sample.
            assert position.emitted == 500 * number
            assert pipeline.dropped.invalid < position.consumed
        again = epoch(pipeline, Position(), 10)
    assert again == epoch(make_pipeline(rows(10_000), processors, batch_size=10), Position(), 10)


def test_positions_count_raw_and_processed_samples() -> None:
    # Targets 0 .. 5 in order; 0 and 3 are dropped, so the batches of a pass are (1, 2) and (4, 5).
    pipeline = make_pipeline(rows(6), [Drop(every=3)], batch_size=2, shuffle_buffer_size=0)
    made = epoch(pipeline, num_samples=6)
    assert [[meta["id"] for meta in content[-1]] for content, _ in made] == [[1, 2], [4, 5], [1, 2]]
    assert [position for _, position in made] == [Position(0, 3, 2), Position(0, 6, 4), Position(1, 3, 2)]
    assert pipeline.dropped.invalid == 3  # 0 and 3 in the first pass, 0 in the second
    # After the end of data that have become smaller the next pass begins.
    noisy = make_pipeline(rows(6), [NoiseParams()], batch_size=4, num_processes=0)
    assert epoch(noisy, Position(1, 20, 20), 8) == epoch(noisy, Position(2), 8)


@pytest.mark.parametrize("source", [[], rows(4)], ids=["no sample", "all dropped"])
@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_a_pass_without_valid_samples_is_an_error(source: list[Sample], mode: str) -> None:
    pipeline = make_pipeline(source, [Drop(every=1)], mode=mode)
    with pytest.raises(TfaipError, match=f"no valid sample; dropped so far: {len(source)} invalid"):
        batch_ids(pipeline)


def test_an_iterator_that_is_used_up_is_an_error_in_the_second_pass() -> None:
    pipeline = make_pipeline(RawDataGeneratorParams(samples=iter(rows(3))), batch_size=2)
    with pipeline.training_batches(Position(), 4) as batches:
        next(batches)
        with pytest.raises(TfaipError, match="pass 1 over the training data has no valid sample"):
            next(batches)


def test_positions_survive_json_and_damaged_ones_are_refused(subtests: pytest.Subtests) -> None:
    for position in (Position(3, 9, 7, (1, 4)), Position(0, 5, 2, failed=4, dropped=(2, 0, 1))):
        again = Position.from_dict(json.loads(json.dumps(position.to_dict())))
        assert (again, again.dropped) == (position, position.dropped)
    valid = position.to_dict()
    for values in (
        [{}, *({key: valid[key] for key in valid if key != missing} for missing in valid)]
        + [{**valid, name: wrong} for name in ("emitted", "pending") for wrong in (None, "many")]
        + [{**valid, "dropped": [1, 2]}]
    ):
        with subtests.test(values=values), pytest.raises(ValueError, match="damaged position of the data"):
            Position.from_dict(values)


LIST = RawDataGeneratorParams(samples=rows(9))


def order(params: DataGeneratorParams, **pipeline: int) -> list[int]:
    sampler = Sampler(params.create(PipelineMode.TRAINING), DataPipelineParams(**pipeline), seed=4)  # type: ignore[arg-type]
    return [sample.meta["id"] for sample in sampler.samples(1)]


@given(size=st.integers(1, 12), length=st.integers(0, 40), seed=st.integers(0, 100))
def test_buffer_shuffle_permutes_within_its_window(size: int, length: int, seed: int) -> None:
    shuffled = list(buffer_shuffle(range(length), size, np.random.default_rng(seed)))
    assert sorted(shuffled) == list(range(length))
    # The output number n is drawn when the first n + size samples have been read.
    assert all(value < position + size for position, value in enumerate(shuffled))


def test_buffer_shuffle_draws_all_with_equal_chances() -> None:
    firsts = [next(buffer_shuffle(range(8), 4, np.random.default_rng(seed))) for seed in range(400)]
    counts = np.bincount(firsts)
    assert len(counts) == 4
    assert counts.min() > 70  # 100 expected, deviation 8.7


def test_the_order_of_a_pass() -> None:
    expected = np.random.default_rng([4, 1]).permutation(9)
    assert order(LIST) == list(expected)
    assert order(LIST, shuffle_buffer_size=2) == list(expected)
    for params in (LIST, IterableRowsParams(count=9)):
        assert sorted(order(params, limit=4)) == [0, 1, 2, 3]
        assert len(order(params, limit=20)) == 9


class OrderedParams(IterableRowsParams, cls=":Ordered"):
    pass


class Ordered(IterableRows):
    shuffle = False


def test_a_training_reads_a_generator_in_its_order_also_from_memory() -> None:
    pipeline = make_pipeline(OrderedParams(count=5), batch_size=5, num_processes=0)
    for made in (pipeline, pipeline.as_preloaded(), pipeline.with_seed(3)):
        assert batch_ids(made, 2) == [[0, 1, 2, 3, 4]] * 2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("processors", [[], [NoiseParams()]])
def test_data_that_can_only_be_iterated_are_read_on_from_epoch_to_epoch(processors: list[Any], workers: int) -> None:
    """A one-shot iterator would lose samples otherwise, and endless data be read again from their beginning."""
    read = 0

    def source() -> Iterator[Sample]:
        nonlocal read
        for read in count(1):
            yield row(read - 1)

    params: Any = {"batch_size": 4, "shuffle_buffer_size": 0, "num_processes": workers}
    pipeline = make_pipeline(RawDataGeneratorParams(samples=source()), processors, **params)
    seen: list[Any] = []
    position = Position()
    with pipeline:
        for number in range(1, 4):
            made = epoch(pipeline, position, 20)
            position = made[-1][1]
            seen += [meta["id"] for content, _ in made for meta in content[-1]]
            assert 20 * number <= read <= 20 * number + (4 * 4 * workers)  # blocks ahead
    assert seen == list(range(60))
    assert position == Position(0, 60, 60)
