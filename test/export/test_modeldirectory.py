"""Exported model directories."""

import gc
import logging
import shutil
import threading
from dataclasses import field
from pathlib import Path

import numpy as np
import pytest

from test.support.tiny.scenario import (
    TinyData,
    TinyGenerator,
    TinyModelParams,
    TinyPipelineParams,
    TinyScenario,
    TinyTrainerParams,
)
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.trainingdata import TrainingDataParams, random_inputs, sample_inputs
from tfaip.imports import ScenarioBase, ScenarioBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import load_arrays, variable_arrays
from tfaip.params import pai_meta
from tfaip.params.resource import Resource
from tfaip.util.manifest import ModelDirectory, verify_files


class WithVocabularyParams(ScenarioBaseParams[TinyData, TinyModelParams]):
    """A scenario with a file."""

    vocabulary: Resource | None = field(default=None, metadata=pai_meta(help="Words"))


class WithVocabulary(ScenarioBase[WithVocabularyParams, TinyTrainerParams]):
    """A scenario with a file."""


def built(scenario):
    graph = scenario.graph
    graph.predict({"x": np.zeros((1, 4), np.float32)})
    return scenario


def test_resources_travel_and_are_found_after_a_move(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "words.txt").write_text("a b c")
    params = WithVocabulary.default_params()
    params.export_serve = False
    params.vocabulary = Resource(tmp_path / "data" / "words.txt")
    ModelDirectoryWriter(built(WithVocabulary(params))).write(tmp_path / "best")
    assert params.vocabulary.path == tmp_path / "data" / "words.txt"  # the running scenario keeps its own
    shutil.rmtree(tmp_path / "data")
    shutil.move(tmp_path / "best", tmp_path / "moved")
    loaded = WithVocabulary.params_from_path(tmp_path / "moved")
    assert loaded.vocabulary.path == tmp_path / "moved" / "resources" / "words.txt"
    assert loaded.vocabulary.path.read_text() == "a b c"


def test_files_of_a_user_within_a_format_stay_or_are_named(tmp_path, caplog):
    scenario = built(TinyScenario(TinyScenario.default_params()))
    scenario.params.export_serve = True
    writer, best = ModelDirectoryWriter(scenario), tmp_path / "best"
    writer.write(best)
    assert ModelDirectory.at(best).foreign_entries() == []
    (best / "serve" / "assets.extra").mkdir()
    (best / "serve" / "assets.extra" / "warmup").write_text("requests")
    (best / "serve" / "notes.txt").write_text("mine")
    writer.write(best)
    assert (best / "serve" / "assets.extra" / "warmup").read_text() == "requests"
    assert (best / "serve" / "notes.txt").read_text() == "mine"
    assert caplog.messages == []
    scenario.graph.weights[0].assign(scenario.graph.weights[0] + 1)
    writer.write(best)
    assert not (best / "serve" / "notes.txt").exists()
    [message] = caplog.messages
    assert message.endswith("were removed from " + str(best) + ": serve/assets.extra, serve/notes.txt")


@pytest.mark.backend
def test_a_model_is_replaced_later_with_the_weights_of_its_time(tmp_path):
    scenario = built(TinyScenario(TinyScenario.default_params()))
    scenario.params.export_serve = True
    writer, best = ModelDirectoryWriter(scenario), tmp_path / "best"
    commit = writer.begin(best)
    assert not best.exists()
    weight = scenario.graph.weights[0]
    before = variable_arrays({"weight": weight})["weight"]
    weight.assign(weight + 1)
    thread = threading.Thread(target=commit)
    thread.start()
    thread.join()
    verify_files(best)
    path = next(path for path, variable in variables_by_path(scenario.graph).items() if variable is weight)
    np.testing.assert_array_equal(load_arrays(best / "weights.safetensors")[path], before)
    dropped = writer.begin(best)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".tmp-best", "best"]
    del dropped
    gc.collect()
    assert [p.name for p in tmp_path.iterdir()] == ["best"]


class Gone(TinyGenerator):
    """Data that are on another machine."""

    def load(self) -> Sample:
        return Sample(inputs=np.load(Path("/nowhere/data.npy")))


def training_data(generator: TinyGenerator) -> TrainingDataParams:
    gen = TinyPipelineParams()
    gen.val = generator
    return TrainingDataParams(gen=gen, random_seed=1)


def test_the_data_of_the_training_come_first_but_not_its_batches() -> None:
    scenario, generator = TinyScenario(TinyScenario.default_params()), TinyGenerator(samples=10, seed=2)
    data = training_data(generator)
    inputs, origin = sample_inputs(scenario, data, 4)
    assert origin == "validation data of the training"
    np.testing.assert_array_equal(inputs["x"], generator.load().inputs["x"][:4])
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
