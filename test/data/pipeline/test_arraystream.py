"""Batches cut from arrays against the way through single samples: the same bytes, the same positions."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.data.support import batch_bytes, epoch, make_pipeline, sample_ids
from tfaip import Data, PipelineMode, Sample, Spec
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import Position


class ImageData(Data):
    inputs, targets = {"image": Spec(2, None), "text": Spec(1, str)}, {"label": Spec(1, int)}

    def element_length_fn(self, sample: Sample) -> int:
        return int(sample.targets["label"][0])


class ImagesParams(DataGeneratorParams, cls=":Images"):
    """Images with three columns."""

    count: int = 10


class Images(ArrayDataGenerator[ImagesParams]):
    batches_read = 0
    rows_read = 0

    def load(self) -> Sample:
        count = self.params.count
        image = np.arange(count * 6, dtype="float64").reshape(count, 2, 3)
        text = np.array([[f"n{index}"] for index in range(count)], dtype=object)
        label = np.arange(count, dtype="int8")[:, None]
        meta = [{"id": index} for index in range(count)]
        return Sample(inputs={"image": image, "text": text}, targets={"label": label}, meta=meta)

    def get_batch(self, indices: np.ndarray[Any, Any]) -> Sample:
        self.batches_read += 1
        self.rows_read += len(indices)
        return super().get_batch(indices)


def pipelines(count: int, seed: int, **pipeline: Any) -> list[DataPipeline]:
    """The same data with arrays, and sample by sample."""
    generator = ImagesParams(count=count)
    single = [sample.copy() for sample in generator.create(PipelineMode.TRAINING).generate()]
    return [make_pipeline(source, seed=seed, data=ImageData, **pipeline) for source in (generator, single)]


@given(
    count=st.integers(1, 20),
    seed=st.integers(0, 1000),
    params=st.fixed_dictionaries(
        {
            "batch_size": st.integers(1, 12),
            "limit": st.sampled_from([-1, 3]),
            "shuffle_buffer_size": st.sampled_from([-1, 0]),
            "batch_drop_remainder": st.booleans(),
        }
    ),
    num_samples=st.integers(0, 50),
    start=st.tuples(st.integers(0, 3), st.integers(0, 20)),
)
def test_training_batches_are_the_same_bytes(
    count: int, seed: int, params: dict[str, Any], num_samples: int, start: tuple[int, int]
) -> None:
    arrays, single = pipelines(count, seed, **params)
    position = Position(start[0], start[1], start[1])  # it may be after the end of data that have become smaller
    made = epoch(arrays, position, num_samples)
    assert made == epoch(single, position, num_samples)
    assert arrays.generator.batches_read == len(made)


@pytest.mark.parametrize("start", [Position(), Position(1, 7, 7)])
@pytest.mark.parametrize("rank", range(3))
def test_a_process_reads_its_own_rows_alone(rank: int, start: Position) -> None:
    # Batches of 6 of passes of 10; the data without arrays are cut behind their batches.
    arrays, single = pipelines(10, 3, batch_size=6)
    assert epoch(arrays, start, 30, (rank, 3, 3)) == epoch(single, start, 30, (rank, 3, 3))
    assert (arrays.generator.batches_read, arrays.generator.rows_read) == (5, 10)


@pytest.mark.parametrize("mode", PipelineMode)
@pytest.mark.parametrize("drop", [False, True])
def test_a_single_pass_is_the_same_bytes(mode: PipelineMode, drop: bool) -> None:
    made = []
    for pipeline in pipelines(10, 1, mode=mode, batch_size=4, batch_drop_remainder=drop):
        with pipeline.generate_input_batches(auto_repeat=False) as batches:
            made.append([batch_bytes(batch) for batch in batches])
    assert made[0] == made[1]
    assert [len(batch[-1]) for batch in made[0]] == ([4, 4] if drop else [4, 4, 2])


def test_a_length_limit_goes_sample_by_sample() -> None:
    arrays, _ = pipelines(4, 0, max_element_length=2)
    assert sorted(sample_ids(arrays, auto_repeat=False)) == [0, 1, 2]
    assert arrays.dropped.too_long == 1
    epoch(arrays, num_samples=3)
    assert arrays.generator.batches_read == 0
