"""Processors run outside of a data pipeline: `params.create(...).apply(samples)`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from test.data.support import DropParams, NoiseParams, PairParams, RowDataParams, row, rows
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import (
    DataProcessor,
    DataProcessorParams,
    GeneratingDataProcessor,
    MappingDataProcessor,
)
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.processor.pipeline import ProcessorPipeline
from tfaip.params import pai_dataclass


def create(processors: list[Any], mode: PipelineMode = PipelineMode.TRAINING) -> ProcessorPipeline:
    params = SequentialProcessorPipelineParams(processors=processors)
    return params.create(DataPipelineParams(mode=mode), RowDataParams())


def apply(processors: list[Any], samples: Iterable[Sample], seed: int = 0) -> list[int]:
    return [int(sample.targets["y"][0]) for sample in create(processors).apply(samples, seed)]


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


def test_order_of_mapping_and_generating_processors() -> None:
    # 0..5 without 0 and 3: 1 2 4 5; pairs keep the first target: 1 4.
    assert apply([DropParams(every=3), PairParams()], rows(6)) == [1, 4]
    # Pairs of 0..5 keep 0 2 4; without multiples of 3: 2 4.
    assert apply([PairParams(), DropParams(every=3)], rows(6)) == [2, 4]


def test_randomness_depends_on_seed_sample_and_processor() -> None:
    once = apply([NoiseParams()], rows(5), seed=3)
    assert once == apply([NoiseParams()], rows(5), seed=3)
    assert once != apply([NoiseParams()], rows(5), seed=4)
    noise = [value - index for index, value in enumerate(once)]
    assert len(set(noise)) > 1
    twice = apply([NoiseParams(), NoiseParams()], rows(5), seed=3)
    second = [value - first for value, first in zip(twice, once, strict=True)]
    assert second != noise


def test_randomness_of_a_processor_does_not_depend_on_those_of_other_modes() -> None:
    other = DropParams(modes={PipelineMode.PREDICTION})
    first = create([other, NoiseParams()]).apply(rows(4))
    second = create([DropParams(modes={PipelineMode.TARGETS}), NoiseParams()]).apply(rows(4))
    assert [s.targets["y"][0] for s in first] == [s.targets["y"][0] for s in second]


def test_an_invalid_sample_is_not_processed_further() -> None:
    assert apply([DropParams(every=1), FaultyParams(fault="map raise")], rows(3)) == []


def test_an_error_names_the_processor_and_the_sample() -> None:
    with pytest.raises(ZeroDivisionError, match="bad pixel") as info:
        apply([DropParams(every=2), FaultyParams(fault="map raise")], rows(3))
    (note,) = info.value.__notes__
    assert note.startswith("in FaultyMapping.apply, sample 1 of its pass: Sample(inputs={x: float64[2]}")
    assert "meta={id: 1}" in note

    with pytest.raises(ZeroDivisionError, match="bad group") as info:
        apply([FaultyParams(fault="generate raise")], rows(3))
    assert info.value.__notes__ == ["while FaultyGenerating.generate ran"]


def test_wrong_processors_are_refused(subtests: pytest.Subtests) -> None:
    for fault, message in [
        ("map none", "FaultyMapping.apply gave None, expected a Sample"),
        ("generate none", "FaultyGenerating.generate gave {'x': 1}, expected a Sample"),
        ("base", "DataProcessor is no MappingDataProcessor and no GeneratingDataProcessor"),
    ]:
        with subtests.test(fault=fault), pytest.raises(TypeError, match=message):
            apply([FaultyParams(fault=fault)], rows(2))


def test_base_classes_say_what_to_override(subtests: pytest.Subtests) -> None:
    for base in [MappingDataProcessor, GeneratingDataProcessor]:
        with subtests.test(base=base):
            processor = base(DataProcessorParams(), RowDataParams(), PipelineMode.TRAINING)
            method = processor.apply if base is MappingDataProcessor else processor.generate
            with pytest.raises(NotImplementedError, match=f"override {method.__name__} in {base.__name__}"):
                method(row(1))
            with pytest.raises(NotImplementedError, match="override cls"):
                DataProcessorParams().create(RowDataParams(), PipelineMode.TRAINING)
