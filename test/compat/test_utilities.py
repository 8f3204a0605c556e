"""Small helpers of tfaip 1.2."""

from __future__ import annotations

import pstats
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies

from test.support.tiny.scenario import TinyData, TinyGenerator
from tfaip.compat.devices import DeviceConfig
from tfaip.compat.packbits import decode, encode
from tfaip.compat.profiling import MeasureTime, profile
from tfaip.compat.samples import RawDataPipeline, SequenceProcessor
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.device.device_config import DeviceConfigParams
from tfaip.params import post_init

# The example of Apple's Technical Note TN1023.
UNPACKED = bytes.fromhex("AA AA AA 80 00 2A AA AA AA AA 80 00 2A 22 AA AA AA AA AA AA AA AA AA AA")
PACKED = bytes.fromhex("FE AA 02 80 00 2A FD AA 03 80 00 2A 22 F7 AA")


def test_packbits_of_the_technical_note() -> None:
    assert encode(UNPACKED) == PACKED
    assert decode(PACKED) == UNPACKED
    assert decode(b"\x80\x80" + PACKED) == UNPACKED
    assert encode(b"a" * 129) == bytes([257 - 128, 97, 0, 97])


@given(strategies.lists(strategies.tuples(strategies.integers(0, 3), strategies.integers(1, 300)), max_size=20))
def test_packbits_there_and_back(runs: list[tuple[int, int]]) -> None:
    data = b"".join(bytes([byte]) * count for byte, count in runs)
    packed = encode(data)
    assert decode(packed) == data
    assert len(packed) <= len(data) + -(-len(data) // 128)


def test_packbits_that_end_early(subtests: pytest.Subtests) -> None:
    for data in [b"\x01a", b"\xff", b"\x00"]:
        with subtests.test(data=data), pytest.raises(ValueError, match="PackBits data end within a run"):
            decode(data)


def test_time_and_profile_of_a_block(tmp_path: Path) -> None:
    with MeasureTime() as outer, MeasureTime() as inner:
        assert inner.duration == 0
    assert 0 < inner.duration <= outer.duration

    @profile(tmp_path / "work.prof")
    def work() -> int:
        return sum(n for n in range(10))

    assert work() == 45
    assert any(name == "work" for _, _, name in pstats.Stats(str(tmp_path / "work.prof")).stats)  # type: ignore[attr-defined]


class Plus(MappingDataProcessor[DataProcessorParams]):
    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        return sample.new_invalid() if sample.meta == 3 else sample.new_meta(sample.meta + 1)


def test_processors_one_after_the_other() -> None:
    plus = Plus(DataProcessorParams(), None, PipelineMode.TRAINING)
    sequence = SequenceProcessor([plus, plus])
    assert sequence.apply(Sample(meta=1)).meta == 3
    last = sequence.apply(Sample(meta=2))
    assert (last.meta, last.is_valid()) == (3, False)
    assert sequence.supports_preload()


def test_a_pipeline_of_samples_in_memory() -> None:
    data = TinyData().create()
    samples = list(TinyGenerator(samples=5).create(PipelineMode.PREDICTION).generate())
    pipeline = RawDataPipeline(samples, DataPipelineParams(batch_size=2), data, PipelineMode.PREDICTION)
    with pipeline.generate_input_batches() as batches:
        assert [len(batch.inputs["x"]) for batch in batches] == [2, 2, 1]
    assert type(pipeline.to_mode(PipelineMode.EVALUATION)) is RawDataPipeline


def test_devices_are_set_up_by_the_constructor() -> None:
    assert DeviceConfig().params == DeviceConfigParams()


def test_post_init_of_the_parser_module() -> None:
    with pytest.warns(DeprecationWarning, match=r"use tfaip\.params\.post_init"):
        from tfaip.util.tfaipargparse import post_init as old
    assert old is post_init
