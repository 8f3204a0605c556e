"""Small helpers and ready tests of tfaip 1.2."""

from __future__ import annotations

import os
import pstats
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest import TestCase

import pytest

from test.support.tiny.scenario import TinyData, TinyGenerator, TinyScenario
from tfaip.compat import testcases
from tfaip.compat.samples import RawDataPipeline, SequenceProcessor
from tfaip.compat.utilities import (
    DeviceConfig,
    MeasureTime,
    Resource,
    enforce_types,
    profile,
)
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.device.device_config import DeviceConfigParams


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
    params = DataPipelineParams(batch_size=2, mode=PipelineMode.PREDICTION)
    pipeline = RawDataPipeline(samples, params, data)
    with pipeline.generate_input_batches() as batches:
        assert [len(batch.inputs["x"]) for batch in batches] == [2, 2, 1]
    assert type(pipeline.to_mode(PipelineMode.EVALUATION)) is RawDataPipeline


@pytest.mark.slow
def test_a_scenario_passes_the_ready_tests() -> None:
    case = TestCase()
    arguments = testcases.AdditionalTrainerArgs(preload_data=True)
    testcases.single_train_iter(case, TinyScenario, args=arguments)
    testcases.lav_test_case(case, TinyScenario)
    testcases.resume_training(case, TinyScenario)
    testcases.warmstart_training_test_case(case, TinyScenario)
    case.doCleanups()


def test_paths_and_commands_of_tests(tmp_path: Path) -> None:
    (tmp_path / "workdir").mkdir()
    file = tmp_path / "sub" / "test_it.py"
    assert testcases.workdir_path(str(file), "data", "a.txt") == str(tmp_path / "workdir" / "data" / "a.txt")
    code = "import os, tfaip; assert os.environ['SET'] == '1'"
    assert testcases.call_in_root([sys.executable, "-c", code], {**os.environ, "SET": "1"}) == 0
    with pytest.raises(subprocess.CalledProcessError):
        testcases.call_in_root([sys.executable, "-c", "raise SystemExit(3)"])


def test_small_functions() -> None:
    assert enforce_types(Path) is Path
    assert DeviceConfig().params == DeviceConfigParams()


def test_a_resource_is_its_path(tmp_path: Path) -> None:
    resource, path = Resource(str(tmp_path / "codec.txt")), str(tmp_path / "codec.txt")
    assert [str(resource), resource.abs_path, resource.initial_path, os.fspath(resource)] == [path] * 4
    assert (resource.basename, resource.stored(tmp_path)) == ("codec.txt", "codec.txt")
    assert Resource.encode is Resource.decode is None  # `dataclasses_json.config` leaves them out
