"""Batches by length: what is in them, in which order they come, and that a training goes on between any two of them."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from test.data.support import (
    Drop,
    IterableRowsParams,
    NoiseParams,
    Pair,
    Repeat,
    RowData,
    batch_ids,
    epoch,
    make_pipeline,
    rows,
)
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import TfaipError, UsageError


def one_pass(samples: Any, **params: Any) -> list[list[int]]:
    return batch_ids(make_pipeline(samples, mode="evaluation", **params))


# The length of row i is i % 3 + 1: lengths 1 2 3 1 2 3 1 for the ids 0 to 6.
@pytest.mark.parametrize(
    ("count", "params", "expected"),
    [
        # Buckets of length 1 and of 2 and longer: [0, 3] is full at 3, [1, 2] at 2, so it comes first.
        (7, {"batch_size": 2, "bucket_boundaries": [2]}, [[1, 2], [0, 3], [4, 5], [6]]),
        # A boundary belongs to the bucket above it.
        (3, {"batch_size": 9, "bucket_boundaries": [3]}, [[0, 1], [2]]),
        (
            12,
            {"bucket_boundaries": [2, 3], "bucket_batch_sizes": [4, 2, 1]},
            [[2], [1, 4], [5], [8], [0, 3, 6, 9], [7, 10], [11]],
        ),
        # What is left comes at the end, the shortest first; samples that are too long are dropped before.
        (4, {"batch_size": 3, "bucket_boundaries": [2, 3]}, [[0, 3], [1], [2]]),
        (7, {"batch_size": 2, "bucket_boundaries": [2], "max_element_length": 2}, [[0, 3], [1, 4], [6]]),
    ],
)
def test_a_batch_holds_the_samples_of_one_bucket(
    count: int, params: dict[str, Any], expected: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one_pass(rows(count), **params) == expected
    # The data may return the function that measures, as those of tfaip 1.2 do.
    monkeypatch.setattr(RowData, "element_length_fn", lambda self: lambda values: len(values["x"]) + 0 * values["y"][0])
    assert one_pass(rows(count), **params) == expected


def test_positions_name_the_samples_that_wait(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = make_pipeline(rows(7), batch_size=2, bucket_boundaries=[2], shuffle_buffer_size=0)
    made = epoch(pipeline, num_samples=10)
    assert len(made) == pipeline.num_batches(10)
    assert [position for _, position in made] == [
        Position(0, 3, 3, (0,)),  # [1, 2]
        Position(0, 4, 4),  # [0, 3]
        Position(0, 6, 6),  # [4, 5]
        Position(0, 7, 7),  # [6], the end of the pass
        Position(1, 3, 3, (0,)),
    ]
    ((content, _),) = epoch(make_pipeline(rows(9), batch_size=3, shuffle_buffer_size=0), Position(0, 6, 6, (0, 3)), 3)
    assert [meta["id"] for meta in content[-1]] == [6, 7, 8]
    assert caplog.messages == ["without buckets, 2 samples that waited in them come only in the next pass"]


@given(
    processors=st.lists(st.sampled_from([NoiseParams(), Drop(), Repeat(), Pair()]), max_size=3),
    source=st.sampled_from([rows(25), IterableRowsParams(count=25)]),
    seed=st.integers(0, 1000),
    params=st.fixed_dictionaries(
        {
            "bucket_boundaries": st.sampled_from([[2], [2, 3], [2, 4, 6]]),
            "batch_size": st.integers(1, 6),
            "batch_drop_remainder": st.booleans(),
        }
    ),
    stop=st.integers(0, 12),
)
def test_resume_behind_any_batch_gives_the_remaining_ones(
    processors: list[Any], source: Any, seed: int, params: dict[str, Any], stop: int
) -> None:
    def make() -> DataPipeline:
        return make_pipeline(source, processors, seed=seed, shuffle_buffer_size=8, **params)

    steps, size = 14, params["batch_size"]
    try:
        whole = epoch(make(), num_samples=steps * size)
    except TfaipError:  # a pass without samples, or without a batch
        assume(False)
    assert len(whole) == steps
    position = Position.from_dict(json.loads(json.dumps(whole[stop][1].to_dict())))
    assert epoch(make(), position, (steps - stop - 1) * size) == whole[stop + 1 :]
    with make() as pipeline:  # two epochs of one training
        first = epoch(pipeline, num_samples=(stop + 1) * size)
        assert first + epoch(pipeline, first[-1][1], (steps - stop - 1) * size) == whole


class Counting(list[Sample]):
    """A list that knows which of its samples were read."""

    read: list[int]

    def __getitem__(self, index: Any) -> Any:
        self.read.append(index)
        return super().__getitem__(index)


def test_resume_reads_only_the_samples_that_wait() -> None:
    # Row 0 alone has length 1: it waits from the beginning of the pass to its end.
    lengths = [1] + [2] * 50
    samples = [Sample(inputs={"x": np.ones(n)}, targets={"y": [0]}, meta={"id": i}) for i, n in enumerate(lengths)]
    params: Any = {"batch_size": 5, "bucket_boundaries": [2], "shuffle_buffer_size": 0}
    *_, (_, position) = epoch(make_pipeline(samples, **params), num_samples=40)
    assert position == Position(0, 41, 41, (0,))
    pipeline, counting = make_pipeline(RawDataGeneratorParams(samples=samples), **params), Counting(samples)
    pipeline.generator._samples, counting.read = counting, []
    made = epoch(pipeline, position, 15)
    assert [[meta["id"] for meta in content[-1]] for content, _ in made] == [[*range(41, 46)], [*range(46, 51)], [0]]
    assert counting.read == [0, *range(41, 51)]


def test_what_has_no_buckets_is_an_error() -> None:
    pipeline = make_pipeline(rows(4), batch_size=3, bucket_boundaries=[2, 3], batch_drop_remainder=True)
    with pytest.raises(TfaipError, match=r"pass 0 over the data filled no bucket.* smaller batches \(\[3, 3, 3\]\)"):
        batch_ids(pipeline)
    pipeline.generator.yields_batches = lambda: True  # type: ignore[method-assign]
    with pytest.raises(UsageError, match="bucket_boundaries needs single samples, but RawDataGenerator yields batches"):
        batch_ids(pipeline)


@pytest.mark.parametrize("mode", ["evaluation", "prediction"])
def test_few_shapes(mode: str) -> None:
    samples = [Sample(inputs={"x": np.ones(n)}, targets={"y": [n]}, meta=n) for n in (1, 2, 3, 4, 5, 6, 9)]
    pipeline = make_pipeline(samples, mode=mode, batch_size=1, bucket_boundaries=[3, 6])
    with pipeline.generate_input_batches(few_shapes=True) as batches:
        made = {batch.meta[0]: batch for batch in batches}
    assert {n: batch.inputs["x"].shape[1] for n, batch in made.items()} == {1: 2, 2: 2, 3: 5, 4: 5, 5: 5, 6: 6, 9: 9}
    assert made[3].inputs["x"].tolist() == [[1, 1, 1, -1, -1]]
    assert [batch.targets for batch in made.values()] == [{"y": [[n]]} if mode == "evaluation" else {} for n in made]
    plain = make_pipeline(samples, mode=mode, batch_size=1)
    with plain.generate_input_batches(few_shapes=True) as batches:
        assert [batch.inputs["x"].shape[1] for batch in batches] == [1, 2, 3, 4, 5, 6, 9]


def test_predictions_keep_the_order_of_the_data() -> None:
    samples = [Sample(inputs={"x": np.ones(n)}, meta=n) for n in (5, 1, 2, 4, 1, 3)]
    pipeline = make_pipeline(samples, mode="prediction", batch_size=2, bucket_boundaries=[3, 6])
    for few_shapes, widths in [(False, [5, 4, 3]), (True, [5, 5, 5])]:
        with pipeline.generate_input_batches(few_shapes=few_shapes, in_order=True) as batches:
            found = [(batch.meta, batch.inputs["x"].shape[1]) for batch in batches]
        assert found == list(zip([[5, 1], [2, 4], [1, 3]], widths, strict=True))
