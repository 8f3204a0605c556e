"""A batch to try a model on."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest

from test.support.tiny.scenario import TinyGenerator, TinyPipelineParams, TinyScenario
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.export.trainingdata import TrainingDataParams, random_inputs, sample_inputs


class Gone(TinyGenerator):
    """Data that are on another machine."""

    def load(self) -> Sample:
        return Sample(inputs=np.load(Path("/nowhere/data.npy")))


def training_data(generator: TinyGenerator) -> TrainingDataParams:
    gen = TinyPipelineParams()
    gen.val = generator
    return TrainingDataParams(gen=gen, random_seed=1)


def test_the_data_of_the_training_come_first() -> None:
    scenario = TinyScenario(TinyScenario.default_params())
    generator = TinyGenerator(samples=10, seed=2)
    inputs, origin = sample_inputs(scenario, training_data(generator), 4)
    assert origin == "validation data of the training"
    np.testing.assert_array_equal(inputs["x"], generator.load().inputs["x"][:4])
    assert len(sample_inputs(scenario, training_data(generator), 100)[0]["x"]) == 10


def test_the_batch_size_counts_not_the_batches_of_the_training() -> None:
    scenario = TinyScenario(TinyScenario.default_params())
    data = training_data(TinyGenerator(samples=10))
    data.gen.setup.val.batch_drop_remainder = True
    assert len(sample_inputs(scenario, data, 16)[0]["x"]) == 10  # fewer than a batch
    data.gen.setup.val.bucket_boundaries, data.gen.setup.val.bucket_batch_sizes = [9], [8, 8]
    assert len(sample_inputs(scenario, data, 4)[0]["x"]) == 4


@pytest.mark.parametrize("data", [None, TinyGenerator(samples=0), Gone()])
def test_random_inputs_where_there_are_none(
    data: TinyGenerator | None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("tfaip"), "propagate", True)
    scenario = TinyScenario(TinyScenario.default_params())
    inputs, origin = sample_inputs(scenario, None if data is None else training_data(data), 4)
    assert (origin, inputs["x"].shape) == ("random", (4, 4))
    assert ("/nowhere/data.npy" in caplog.text) is isinstance(data, Gone)


def test_random_inputs_have_the_types_and_shapes_of_the_specs() -> None:
    specs = {
        "sequence": TensorSpec((None, 3), "float32"),
        "words": TensorSpec((5,), "int64"),
        "pixels": TensorSpec((2, 2), "uint8"),
        "flag": TensorSpec((1,), "bool"),
        "text": TensorSpec((1,), "string"),
    }
    inputs = random_inputs(specs, 2)
    assert {name: (array.shape, str(array.dtype)) for name, array in inputs.items()} == {
        "sequence": ((2, 16, 3), "float32"),
        "words": ((2, 5), "int64"),
        "pixels": ((2, 2, 2), "uint8"),
        "flag": ((2, 1), "bool"),
        "text": ((2, 1), "object"),
    }
    # An embedding of any size has the classes 0 and 1.
    assert set(inputs["words"].ravel().tolist()) <= {0, 1}
    assert inputs["text"].tolist() == [["a"], ["a"]]
    assert 0.5 < inputs["sequence"].std() < 1.5
