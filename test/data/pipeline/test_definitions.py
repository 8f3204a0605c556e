import pickle

import numpy as np
import pytest

from tfaip import PipelineMode, Sample
from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.generators.mixed import Mixed
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.params import DataPipelineParams

PARTS = {"inputs": {"x": 1}, "outputs": {"o": 2}, "targets": {"y": 3}, "meta": "m"}
FULL = Sample(**PARTS)


def parts(sample: Sample) -> dict[str, object]:
    return {name: getattr(sample, name) for name in PARTS}


def test_new_part_replaces_one_part_in_a_copy() -> None:
    for part in PARTS:
        assert parts(getattr(FULL, f"new_{part}")("new")) == {**PARTS, part: "new"}
        assert parts(FULL) == PARTS
    again = pickle.loads(pickle.dumps(FULL.new_invalid().copy().new_inputs({"x": 1})))  # noqa: S301 (our own bytes)
    assert (parts(again), again.is_valid(), FULL.is_valid(), Sample().is_valid()) == (PARTS, False, True, True)


def test_validity_depends_on_the_mode() -> None:
    for sample, modes in [
        (Sample(inputs=1, targets=2), "training evaluation prediction targets"),
        (Sample(inputs=1), "prediction"),
        (Sample(targets=2), "targets"),
        (Sample(meta=3), ""),
        (Sample(inputs=1, targets=2).new_invalid(), ""),
    ]:
        assert [mode for mode in PipelineMode if sample.is_valid(mode)] == modes.split()


def test_repr_is_short_and_shows_shapes() -> None:
    text = repr(Sample(inputs={"x": np.zeros([2, 3], "float32")}, meta="a" * 200).new_invalid())
    assert text.startswith("Sample(inputs={x: float32[2, 3]}, meta='aaa")
    assert text.endswith("..., invalid)")
    assert len(text) < 150


def test_a_mode_may_be_given_as_its_text() -> None:
    assert DataPipelineParams(mode="training").mode is PipelineMode.TRAINING  # type: ignore[arg-type]
    lists = ListsFileGeneratorParams()
    for create in (RawDataGeneratorParams([FULL]).create, lists.create, Mixed(sources=[lists]).create):
        assert create("evaluation").mode is PipelineMode.EVALUATION  # type: ignore[arg-type]
    for make in (lists.create, DataPipelineParams):
        with pytest.raises(ValueError, match="'nonsense', expected one of 'training', 'evaluation', 'prediction', 't"):
            make("nonsense")
