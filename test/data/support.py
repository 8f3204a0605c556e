"""A small scenario's data: numbers and short rows, with processors of every kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams, DataPipelineParams
from tfaip.data.pipeline.batching import UNSHARDED, Batch, Shard
from tfaip.data.pipeline.datagenerator import DataGenerator, RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessorParams,
    GeneratingDataProcessor,
    MappingDataProcessor,
)
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position
from tfaip.data.specs import TensorSpec


class RowDataParams(DataBaseParams, cls=":RowData"):
    """Rows of different length."""


class RowData(DataBase[RowDataParams]):
    def _input_layer_specs(self) -> dict[str, Any]:
        return {"x": TensorSpec((None,), "float32")}

    def _target_layer_specs(self) -> dict[str, Any]:
        return {"y": TensorSpec((1,), "int32")}

    def _padding_values(self) -> dict[str, Any]:
        return {"x": -1}

    def element_length_fn(self, sample: Sample) -> int:
        return len(sample.inputs["x"])


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
        return (row(value) for value in range(self.params.count))


class NoiseParams(DataProcessorParams, cls=":Noise"):
    """Adds a random number below `high` to inputs and targets."""

    high: int = 1000


class Noise(MappingDataProcessor[NoiseParams]):
    def apply(self, sample: Sample) -> Sample:
        noise = int(self.rng.integers(self.params.high))
        return sample.new_inputs({"x": sample.inputs["x"] + noise}).new_targets({"y": sample.targets["y"] + noise})


class DropParams(DataProcessorParams, cls=":Drop"):
    """Declares a random third of the samples, or those whose target `every` divides, invalid."""

    every: int = 0


class Drop(MappingDataProcessor[DropParams]):
    def apply(self, sample: Sample) -> Sample:
        chosen = sample.targets["y"][0] % self.params.every if self.params.every else self.rng.integers(3)
        return sample.new_invalid() if chosen == 0 else sample


class RepeatParams(DataProcessorParams, cls=":Repeat"):
    """Gives each sample 0 to 2 times."""


class Repeat(GeneratingDataProcessor[RepeatParams]):
    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        for sample in samples:
            for _ in range(self.rng.integers(3)):
                yield sample


class PairParams(DataProcessorParams, cls=":Pair"):
    """Joins two samples to one; the last one of an odd number is lost."""


class Pair(GeneratingDataProcessor[PairParams]):
    def generate(self, samples: Iterable[Sample]) -> Iterable[Sample]:
        iterator = iter(samples)
        for first, second in zip(iterator, iterator, strict=False):
            joined = np.concatenate([first.inputs["x"], second.inputs["x"]])
            yield first.new_inputs({"x": joined})


def make_pipeline(
    samples: list[Sample] | DataGeneratorParams,
    processors: list[DataProcessorParams] | None = None,
    mode: PipelineMode = PipelineMode.TRAINING,
    seed: int = 0,
    data: type[RowData] = RowData,
    **pipeline_params: Any,
) -> DataPipeline:
    """A pipeline over samples (with random access) or a generator."""
    generator = RawDataGeneratorParams(samples=samples) if isinstance(samples, list) else samples
    pre_proc = SequentialProcessorPipelineParams(processors=processors or [])
    pipeline = data(RowDataParams(pre_proc=pre_proc)).create_pipeline(
        DataPipelineParams(mode=mode, **pipeline_params), generator
    )
    return pipeline.with_seed(seed)


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
