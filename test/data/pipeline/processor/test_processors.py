"""Lists of processors, and what they make of samples without a pipeline: `params.create(...).apply(samples)`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.data.support import Drop, NoiseParams, Pair, Repeat, RowDataParams, row, rows
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessor,
    DataProcessorParams,
    GeneratingDataProcessor,
    MappingDataProcessor,
    RandomStream,
)
from tfaip.data.pipeline.processor.params import (
    ComposedProcessorPipelineParams,
    DataProcessorPipelineParams,
    SequentialProcessorPipelineParams,
)
from tfaip.params import pai_dataclass


def create(processors: list[Any]) -> Any:
    return SequentialProcessorPipelineParams(processors=processors).create(DataPipelineParams(), RowDataParams())


def apply(processors: list[Any], samples: Iterable[Sample], seed: int = 0) -> list[int]:
    return [int(sample.targets["y"][0]) for sample in create(processors).apply(samples, seed)]


def sequential() -> SequentialProcessorPipelineParams:
    processors = [NoiseParams(high=1), Drop(), NoiseParams(high=2)]
    return SequentialProcessorPipelineParams(run_parallel=False, processors=processors)


def composed() -> ComposedProcessorPipelineParams:
    parts = [[NoiseParams(high=1), Drop()], [NoiseParams(high=2)]]
    return ComposedProcessorPipelineParams([SequentialProcessorPipelineParams(processors=part) for part in parts])


@pytest.mark.parametrize("make", [sequential, composed])
def test_queries_and_changes(make: type[DataProcessorPipelineParams]) -> None:
    params = make()
    assert params.flatten_processors() == [NoiseParams(high=1), Drop(), NoiseParams(high=2)]
    assert params.processors_of_type(NoiseParams) == [NoiseParams(high=1), NoiseParams(high=2)]
    assert (params.has_processor(Drop), params.has_processor(Repeat)) == (True, False)
    assert params.replace_all(NoiseParams, Repeat()) == 2
    assert params.flatten_processors() == [Repeat(), Drop(), Repeat()]
    assert (params.erase_all(Repeat), params.erase_all(Repeat)) == (2, 0)
    assert params.flatten_processors() == [Drop()]


@pytest.mark.parametrize("make", [sequential, composed])
def test_create_builds_the_processors_of_the_mode(make: type[DataProcessorPipelineParams]) -> None:
    params, data_params = make(), RowDataParams()
    params.processors_of_type(Drop)[0].modes = {PipelineMode.TRAINING}
    for mode, names in [("training", ["Noise", "Drop", "Noise"]), ("prediction", ["Noise", "Noise"])]:
        built = params.create(DataPipelineParams(mode=mode), data_params).processors
        assert [type(processor).__name__ for processor in built] == names
        assert all(processor.mode == mode and processor.data_params is data_params for processor in built)
    assert type(params).from_dict(params.to_dict(), trusted=["test"]) == params


def test_what_processors_ask_of_the_workers() -> None:
    def parts(*settings: tuple[int, int]) -> ComposedProcessorPipelineParams:
        return ComposedProcessorPipelineParams(
            pipelines=[SequentialProcessorPipelineParams(num_threads=n, max_tasks_per_process=m) for n, m in settings]
        )

    assert parts((-1, -1), (-1, -1)).worker_limit(4) == 4
    assert parts((-1, 7), (3, -1), (2, 5)).worker_limit(4) == 3
    assert parts((-1, 7), (3, -1), (2, 5)).tasks_per_worker() == 5
    assert parts((-1, -1)).tasks_per_worker() is None


def test_order_of_mapping_and_generating_processors() -> None:
    # 0..5 without 0 and 3: 1 2 4 5; pairs keep the first target: 1 4.
    assert apply([Drop(every=3), Pair()], rows(6)) == [1, 4]
    # Pairs of 0..5 keep 0 2 4; without multiples of 3: 2 4.
    assert apply([Pair(), Drop(every=3)], rows(6)) == [2, 4]
    # An invalid sample is not processed further.
    assert apply([Drop(every=1), FaultyParams(fault="map raise")], rows(3)) == []


def test_randomness_depends_on_seed_sample_and_processor() -> None:
    once = apply([NoiseParams()], rows(5), seed=3)
    assert once == apply([NoiseParams()], rows(5), seed=3) != apply([NoiseParams()], rows(5), seed=4)
    noise = [value - index for index, value in enumerate(once)]
    assert len(set(noise)) > 1
    twice = apply([NoiseParams(), NoiseParams()], rows(5), seed=3)
    assert [value - first for value, first in zip(twice, once, strict=True)] != noise
    # A processor of another mode keeps its number.
    other = [Drop(modes={mode}) for mode in (PipelineMode.PREDICTION, PipelineMode.TARGETS)]
    assert apply([other[0], NoiseParams()], rows(4)) == apply([other[1], NoiseParams()], rows(4))


def draws(stream: RandomStream) -> list[float]:
    # Of different width, so that leftovers of the previous place would show.
    rng = stream.generator()
    return [*rng.random(3), rng.integers(2**32, dtype=np.uint32), rng.standard_normal()]


@given(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(0, 2**40), st.integers(0, 2**60))
def test_a_place_equals_a_fresh_generator(seed: int, number: int, pass_index: int, index: int) -> None:
    stream = RandomStream(number)
    stream.move(1, 2, 3)
    assert draws(stream) != draws(stream)
    stream.move(seed, pass_index, index)
    counter, key = np.array([0, 0, index, pass_index], np.uint64), np.array([seed, number], np.uint64)
    fresh = np.random.Generator(np.random.Philox(counter=counter, key=key))
    assert draws(stream) == [*fresh.random(3), fresh.integers(2**32, dtype=np.uint32), fresh.standard_normal()]


@pai_dataclass
@dataclass
class FaultyParams(DataProcessorParams):
    """Does what `fault` says."""

    fault: str = "raise"

    def create(self, data_params: Any, mode: PipelineMode) -> DataProcessor[Any]:
        kinds = {"map": FaultyMapping, "generate": FaultyGenerating, "base": DataProcessor}
        return kinds[self.fault.split()[0]](self, data_params, mode)


class FaultyMapping(MappingDataProcessor[FaultyParams]):
    def apply(self, sample: Sample) -> Sample:
        if self.params.fault == "map raise":
            raise ZeroDivisionError("bad pixel")
        return None  # type: ignore[return-value]


class FaultyGenerating(GeneratingDataProcessor[FaultyParams]):
    def generate(self, samples: Iterable[Sample]) -> Iterable[Any]:
        yield from samples
        if self.params.fault == "generate raise":
            raise ZeroDivisionError("bad group")
        yield {"x": 1}


@pytest.mark.parametrize(
    ("fault", "note"),
    [
        ("map raise", "in FaultyMapping.apply, sample 1 of its pass: Sample(inputs={x: float64[2]}"),
        ("generate raise", "while FaultyGenerating.generate ran"),
    ],
)
def test_an_error_names_the_processor_and_the_sample(fault: str, note: str) -> None:
    with pytest.raises(ZeroDivisionError, match="bad") as info:
        apply([Drop(every=2), FaultyParams(fault=fault)], rows(3))
    (found,) = info.value.__notes__
    assert found.startswith(note)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("map none", "FaultyMapping.apply gave None, expected a Sample"),
        ("generate none", "FaultyGenerating.generate gave {x: 1}, expected a Sample"),
        ("base", "DataProcessor is no MappingDataProcessor and no GeneratingDataProcessor"),
    ],
)
def test_wrong_processors_are_refused(fault: str, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        apply([FaultyParams(fault=fault)], rows(2))


def test_base_classes_say_what_to_override() -> None:
    arguments = DataProcessorParams(), RowDataParams(), PipelineMode.TRAINING
    for call, message in [
        (lambda: MappingDataProcessor(*arguments).apply(row(1)), "override apply in MappingDataProcessor"),
        (lambda: GeneratingDataProcessor(*arguments).generate([]), "override generate in GeneratingDataProcessor"),
        (lambda: DataProcessorParams().create(*arguments[1:]), "override cls"),
        (lambda: DataProcessorPipelineParams().flatten_processors(), "use SequentialProcessorPipelineParams"),
    ]:
        with pytest.raises(NotImplementedError, match=message):
            call()
