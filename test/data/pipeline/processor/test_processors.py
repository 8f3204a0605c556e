"""Lists of processors, and what they make of samples without a pipeline: `params.create(...).apply(samples)`."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from test.data.support import Drop, NoiseParams, Pair, Repeat, RowData, row, rows
from tfaip import PipelineMode, Processor, Sample, StreamProcessor
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessorParams,
    MappingDataProcessor,
    RandomStream,
)
from tfaip.data.pipeline.processor.params import (
    ComposedProcessorPipelineParams,
    DataProcessorPipelineParams,
    SequentialProcessorPipelineParams,
)


def apply(processors: list[Any], samples: Iterable[Sample], seed: int = 0) -> list[int]:
    params = SequentialProcessorPipelineParams(processors=processors)
    made = params.create(DataPipelineParams(), RowData()).apply(samples, seed)
    return [int(sample.targets["y"][0]) for sample in made]


def sequential() -> SequentialProcessorPipelineParams:
    processors = [NoiseParams(high=1), Drop(), NoiseParams(high=2)]
    return SequentialProcessorPipelineParams(run_parallel=False, processors=processors)


def composed() -> ComposedProcessorPipelineParams:
    parts = [[NoiseParams(high=1), Drop()], [NoiseParams(high=2)]]
    return ComposedProcessorPipelineParams([SequentialProcessorPipelineParams(processors=part) for part in parts])


@pytest.mark.parametrize("make", [sequential, composed])
def test_queries_changes_and_the_processors_of_a_mode(make: type[DataProcessorPipelineParams]) -> None:
    params, data_params = make(), RowData()
    assert params.flatten_processors() == [NoiseParams(high=1), Drop(), NoiseParams(high=2)]
    assert params.processors_of_type(NoiseParams) == [NoiseParams(high=1), NoiseParams(high=2)]
    assert (params.has_processor(Drop), params.has_processor(Repeat)) == (True, False)
    params.processors_of_type(Drop)[0].modes = {PipelineMode.TRAINING}
    for mode, names in [("training", ["Noise", "Drop", "Noise"]), ("prediction", ["Noise", "Noise"])]:
        built = params.create(DataPipelineParams(mode=PipelineMode(mode)), data_params).processors
        assert [type(processor).__name__ for processor in built] == names
        assert all(processor.mode == mode and processor.data_params is data_params for processor in built)
    assert type(params).from_dict(params.to_dict(), trusted=["test"]) == params
    assert params.replace_all(NoiseParams, Repeat()) == 2
    assert params.flatten_processors() == [Repeat(), Drop(modes={PipelineMode.TRAINING}), Repeat()]
    assert (params.erase_all(Repeat), params.erase_all(Repeat)) == (2, 0)
    assert len(params.flatten_processors()) == 1


def test_what_processors_ask_of_the_workers() -> None:
    for settings, workers, tasks in [([(-1, -1), (-1, -1)], 4, None), ([(-1, 7), (3, -1), (2, 5)], 3, 5)]:
        parts = [SequentialProcessorPipelineParams(num_threads=n, max_tasks_per_process=m) for n, m in settings]
        params = ComposedProcessorPipelineParams(pipelines=parts)
        assert (params.worker_limit(4), params.tasks_per_worker()) == (workers, tasks)


def test_order_of_mapping_and_generating_processors() -> None:
    # 0..5 without 0 and 3: 1 2 4 5; pairs keep the first target: 1 4.
    assert apply([Drop(every=3), Pair()], rows(6)) == [1, 4]
    # Pairs of 0..5 keep 0 2 4; without multiples of 3: 2 4.
    assert apply([Pair(), Drop(every=3)], rows(6)) == [2, 4]
    # An invalid sample is not processed further.
    assert apply([Drop(every=1), FaultyMapping()], rows(3)) == []


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


def draws(rng: np.random.Generator) -> list[float]:
    # Of different width, so that leftovers of the previous place would show.
    return [*rng.random(3), rng.integers(2**32, dtype=np.uint32), rng.standard_normal()]


@given(st.integers(0, 2**64 - 1), st.integers(0, 50), st.integers(0, 2**40), st.integers(0, 2**60))
def test_a_place_equals_a_fresh_generator(seed: int, number: int, pass_index: int, index: int) -> None:
    stream = RandomStream(number)
    stream.move(1, 2, 3)
    assert draws(stream.generator()) != draws(stream.generator())
    stream.move(seed, pass_index, index)
    counter, key = np.array([0, 0, index, pass_index], np.uint64), np.array([seed, number], np.uint64)
    assert draws(stream.generator()) == draws(np.random.Generator(np.random.Philox(counter=counter, key=key)))


class FaultyMapping(Processor):
    raises: bool = True

    def apply(self, sample: Sample) -> Any:
        return 1 / 0 if self.raises else None


class FaultyStream(StreamProcessor):
    raises: bool = True

    def generate(self, samples: Iterable[Sample]) -> Iterable[Any]:
        yield from samples
        yield 1 / 0 if self.raises else {"x": 1}


@pytest.mark.parametrize(
    ("processor", "kind", "message"),
    [
        (FaultyMapping(), ZeroDivisionError, r"\nin FaultyMapping.apply, sample 1 of its pass: Sample\(inputs={x: flo"),
        (FaultyStream(), ZeroDivisionError, r"\nwhile FaultyStream.generate ran$"),
        (FaultyMapping(raises=False), TypeError, "FaultyMapping.apply gave None, expected a Sample"),
        (FaultyStream(raises=False), TypeError, "FaultyStream.generate gave {x: 1}, expected a Sample"),
    ],
)
def test_an_error_names_the_processor_and_the_sample(processor: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        apply([Drop(every=2), processor], rows(3))


class OnlyModes(Processor):
    pass


def test_base_classes_say_what_to_override() -> None:
    arguments = DataProcessorParams(), RowData(), PipelineMode.TRAINING
    for call, message in [
        (lambda: MappingDataProcessor(*arguments).apply(row(1)), "override apply in MappingDataProcessor"),
        (lambda: apply([OnlyModes()], rows(1)), "override apply in OnlyModes"),
        (lambda: DataProcessorParams().create(*arguments[1:]), "override cls"),
    ]:
        with pytest.raises(NotImplementedError, match=message):
            call()
