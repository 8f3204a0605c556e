"""Exported model directories."""

from __future__ import annotations

import gc
import json
import shutil
import threading
from dataclasses import field

import numpy as np
import pytest

from test.support.tiny.scenario import TinyData, TinyModelParams, TinyScenario, TinyTrainerParams
from tfaip.export.modelwriting import ModelDirectoryWriter
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


def test_content_of_a_directory(tmp_path):
    params = TinyScenario.default_params()
    params.export_serve = False
    scenario = built(TinyScenario(params))
    ModelDirectoryWriter(scenario).write(tmp_path / "best")
    assert sorted(p.name for p in (tmp_path / "best").iterdir()) == [
        "manifest.json",
        "scenario_params.json",
        "weights.safetensors",
    ]
    weights = load_arrays(tmp_path / "best" / "weights.safetensors")
    expected = variable_arrays(variables_by_path(scenario.graph))
    assert sorted(weights) == sorted(expected)
    for name, array in expected.items():
        np.testing.assert_array_equal(weights[name], array)
    stored = json.loads((tmp_path / "best" / "scenario_params.json").read_text())
    assert stored["scenario_id"] == "test.support.tiny.scenario:TinyScenario"
    assert TinyScenario.params_from_path(tmp_path / "best").to_dict() == {
        **params.to_dict(),
        "scenario_id": stored["scenario_id"],
    }


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


def test_a_missing_resource_leaves_the_old_export(tmp_path):
    params = WithVocabulary.default_params()
    params.export_serve = False
    writer = ModelDirectoryWriter(built(WithVocabulary(params)))
    writer.write(tmp_path / "best")
    before = (tmp_path / "best" / "weights.safetensors").read_bytes()
    params.vocabulary = Resource(tmp_path / "nowhere.txt")
    with pytest.raises(Exception, match="nowhere.txt is not a file"):
        writer.write(tmp_path / "best")
    assert (tmp_path / "best" / "weights.safetensors").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["best"]


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
