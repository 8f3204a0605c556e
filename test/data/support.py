"""A small scenario's data: numbers and short rows, with processors of every kind."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from tfaip import Data, PipelineMode, Processor, Sample, Spec, StreamProcessor
from tfaip.data.databaseparams import DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import UNSHARDED, Batch, Shard
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position


class RowData(Data):
    """Rows of different length."""

    inputs, targets = {"x": Spec(None)}, {"y": Spec(1, int)}
    padding = {"x": -1}
    length_of = "x"


def row(value: int) -> Sample:
    """The number as a row of 1 to 3 values, as target and as meta."""
    return Sample(
        inputs={"x": np.full(value % 3 + 1, float(value))}, targets={"y": np.array([value])}, meta={"id": value}
    )


def rows(count: int) -> list[Sample]:
    return [row(value) for value in range(count)]


class IterableRowsParams(DataGeneratorParams, cls=":IterableRows"):
    """`count` rows without random access."""

    count: int = 10
    length_is_known: bool = True


class IterableRows(DataGenerator[IterableRowsParams]):
    def __len__(self) -> int:
        return self.params.count if self.params.length_is_known else super().__len__()

    def generate(self) -> Iterable[Sample]:
        return map(row, range(self.params.count))


class NoiseParams(DataProcessorParams, cls=":Noise"):
    """Adds a random number below `high` to inputs and targets."""

    high: int = 1000


class Noise(MappingDataProcessor[NoiseParams]):
    def apply(self, sample: Sample) -> Sample:
        noise = int(self.rng.integers(self.params.high))
        return sample.new_inputs({"x": sample.inputs["x"] + noise}).new_targets({"y": sample.targets["y"] + noise})


class Drop(Processor):
    """Declares a random third of the samples, or those whose target `every` divides, invalid."""

    every: int = 0

    def apply(self, sample: Sample) -> Sample:
        chosen = sample.targets["y"][0] % self.every if self.every else self.rng.integers(3)
        return sample.new_invalid() if chosen == 0 else sample


class Repeat(StreamProcessor):
    """Gives each sample 0 to 2 times."""

    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        for sample in samples:
            for _ in range(self.rng.integers(3)):
                yield sample


class Pair(StreamProcessor):
    """Joins two samples to one; the last one of an odd number is lost."""

    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        iterator = iter(samples)
        for first, second in zip(iterator, iterator, strict=False):
            yield first.new_inputs({"x": np.concatenate([first.inputs["x"], second.inputs["x"]])})


def make_pipeline(
    samples: list[Sample] | DataGeneratorParams,
    processors: Any = (),
    mode: str = "training",
    seed: int = 0,
    data: type[Data] = RowData,
    post_proc: Any = (),
    **pipeline_params: Any,
) -> DataPipeline:
    """A pipeline over samples (with random access) or a generator; of the processors lists, or their params."""
    generator = RawDataGeneratorParams(samples=samples) if isinstance(samples, list) else samples
    lists = [_in_params(processors), _in_params(post_proc)]
    params = DataPipelineParams(mode=PipelineMode(mode), **pipeline_params)
    return data(*lists).create().create_pipeline(params, generator).with_seed(seed)


def _in_params(processors: Any) -> Any:
    is_list = isinstance(processors, list | tuple)
    return SequentialProcessorPipelineParams(processors=list(processors)) if is_list else processors


def sample_ids(pipeline: DataPipeline, number: int | None = None, **arguments: Any) -> list[int]:
    with pipeline.generate_input_samples(**arguments) as samples:
        return [sample.meta["id"] for sample in islice(samples, number)]


def batch_ids(pipeline: DataPipeline, number: int | None = None, **arguments: Any) -> list[list[int]]:
    with pipeline.generate_input_batches(**arguments) as batches:
        return [[meta["id"] for meta in batch.meta] for batch in islice(batches, number)]


def epoch(
    pipeline: DataPipeline,
    start: Position = Position(),  # noqa: B008
    num_samples: int = 60,
    shard: Shard = UNSHARDED,
) -> list[tuple[Any, Position]]:
    """The bytes of each batch of an epoch, and the position behind it."""
    with pipeline.training_batches(start, num_samples, shard) as batches:
        return [(batch_bytes(batch), position) for batch, position in batches]


def batch_bytes(batch: Batch) -> list[Any]:
    """Everything in a batch in a form that compares exactly."""
    arrays = [*sorted(batch.inputs.items()), *sorted(batch.targets.items())]
    return [*((key, array.dtype.str, array.shape, _content(array)) for key, array in arrays), batch.meta]


def _content(array: np.ndarray[Any, Any]) -> Any:
    return array.tolist() if array.dtype == object else array.tobytes()  # the bytes of objects are addresses
