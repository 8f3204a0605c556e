from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from tfaip.data.generators.listsfile import ListsFileGeneratorParams
from tfaip.data.generators.mixed import Mixed
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.params import DataPipelineParams

FULL = Sample(inputs={"x": 1}, outputs={"o": 2}, targets={"y": 3}, meta="m")


def parts(sample: Sample) -> tuple[object, ...]:
    return sample.inputs, sample.outputs, sample.targets, sample.meta


def test_new_part_replaces_one_part_in_a_copy(subtests: pytest.Subtests) -> None:
    for position, part in [(0, "inputs"), (1, "outputs"), (2, "targets"), (3, "meta")]:
        with subtests.test(position=position):
            changed = getattr(FULL, f"new_{part}")("new")
            expected = list(parts(FULL))
            expected[position] = "new"
            assert parts(changed) == tuple(expected)
            assert parts(FULL) == ({"x": 1}, {"o": 2}, {"y": 3}, "m")


def test_validity_depends_on_the_mode(subtests: pytest.Subtests) -> None:
    for sample, valid_in in [
        (Sample(inputs=1, targets=2), set(PipelineMode)),
        (Sample(inputs=1), {PipelineMode.PREDICTION}),
        (Sample(targets=2), {PipelineMode.TARGETS}),
        (Sample(meta=3), set()),
        (Sample(inputs=1, targets=2).new_invalid(), set()),
    ]:
        with subtests.test(sample=sample):
            assert {mode for mode in PipelineMode if sample.is_valid(mode)} == valid_in


def test_an_invalid_sample_stays_invalid_and_keeps_its_parts() -> None:
    invalid = FULL.new_invalid().new_inputs("other").copy()
    assert not invalid.is_valid()
    assert invalid.meta == "m"
    assert FULL.is_valid()


def test_pickle_keeps_everything() -> None:
    again = pickle.loads(pickle.dumps(FULL.new_invalid()))  # noqa: S301 (our own bytes)
    assert parts(again) == parts(FULL)
    assert not again.is_valid()


def test_repr_is_short_and_shows_shapes() -> None:
    sample = Sample(inputs={"x": np.zeros([2, 3], "float32")}, meta="a" * 200).new_invalid()
    assert repr(sample).startswith("Sample(inputs={x: float32[2, 3]}, meta='aaa")
    assert repr(sample).endswith("..., invalid)")
    assert len(repr(sample)) < 150


def test_a_mode_may_be_given_as_its_text() -> None:
    params = replace(DataPipelineParams(), mode="training")
    assert params.mode is PipelineMode.TRAINING
    generators = [
        RawDataGeneratorParams(samples=[FULL]),
        ListsFileGeneratorParams(),
        Mixed(sources=[ListsFileGeneratorParams()]),
    ]
    for made in generators:
        assert made.create("evaluation").mode is PipelineMode.EVALUATION
        with pytest.raises(ValueError, match="'nonsense', expected one of 'training', 'evaluation', 'prediction', 't"):
            made.create("nonsense")
    with pytest.raises(ValueError, match="'nonsense', expected one of 'training'"):
        DataPipelineParams(mode="nonsense")
