"""From a model directory back to the scenario: weights of every graph, of any backend, and what does not fit."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.tiny.model import TinyModel
from test.support.tiny.scenario import TinyData, TinyModelParams, TinyTrainerParams
from tfaip.errors import TfaipError
from tfaip.export.modelloading import load_exported, load_exported_params, load_weights
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.savedmodelformat import ServedModel
from tfaip.imports import GenericGraphBase, ScenarioBase, ScenarioBaseParams
from tfaip.model.graphbase import ExportGraph
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import load_arrays, save_arrays, variable_arrays
from tfaip.params import pai_dataclass
from tfaip.util.manifest import write_manifest

pytestmark = [
    # The helper is not yet built when the prediction graph is.
    pytest.mark.filterwarnings("ignore:`build.*` was called on layer 'graph':UserWarning")
]

X = {"x": np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)}


class HelpedGraph(GenericGraphBase[TinyModelParams]):
    """Has a layer that only the training uses."""

    def __init__(self, params: TinyModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.hidden = keras.layers.Dense(params.units)
        self.out = keras.layers.Dense(1)
        self.helper = keras.layers.Dense(2)

    def build_train_graph(self, inputs: Any, targets: Any, training: bool | None = None) -> Any:
        return {**self.build_prediction_graph(inputs), "help": self.helper(self.hidden(inputs["x"]))}

    def build_prediction_graph(self, inputs: Any) -> Any:
        return {"y": self.out(self.hidden(inputs["x"]))}


class HelpedModel(TinyModel):
    """Exports the hidden layer too."""

    def _export_graphs(self, graph: Any) -> Any:
        return {"serve": graph.predict, "hidden": ExportGraph(lambda i: {"h": graph.hidden(i["x"])}, inputs=["x"])}


@pai_dataclass
@dataclass
class HelpedModelParams(TinyModelParams):
    """The same options."""

    @staticmethod
    def cls() -> type:
        return HelpedModel

    def graph_cls(self) -> type:
        return HelpedGraph


class HelpedParams(ScenarioBaseParams[TinyData, HelpedModelParams]):
    """Data and model."""


class Helped(ScenarioBase[HelpedParams, TinyTrainerParams]):
    """A training graph with more weights than the prediction graph."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Helped, Path]:
    params = Helped.default_params()
    params.export_keras = True
    scenario, data = Helped(params), Helped(params).data
    TrainingModel(scenario.model, scenario.graph).build_symbolically(
        data.create_input_layers(), data.create_target_layers()
    )
    path = tmp_path_factory.mktemp("helped") / "best"
    ModelDirectoryWriter(scenario).write(path)
    return scenario, path


@pytest.mark.backend
def test_weights_of_the_training_graph_are_loaded_too(written: tuple[Helped, Path]) -> None:
    scenario, path = written
    loaded = load_exported(path)
    expected = variable_arrays(variables_by_path(scenario.graph))
    assert {"helper/kernel", "helper/bias"} < set(expected)
    found = variable_arrays(variables_by_path(loaded.graph))
    assert {name: array.tobytes() for name, array in found.items()} == {
        name: array.tobytes() for name, array in expected.items()
    }
    outputs = [keras.ops.convert_to_numpy(s.graph.predict(X)["y"]) for s in (scenario, loaded)]
    np.testing.assert_array_equal(*outputs)


@pytest.mark.backend
def test_every_graph_of_the_model_is_exported_in_every_format(written: tuple[Helped, Path]) -> None:
    scenario, path = written
    hidden = ServedModel(path / "serve", "hidden")
    assert (hidden.endpoints, list(hidden.inputs), list(hidden.outputs)) == (["hidden", "serve"], ["x"], ["h"])
    expected = keras.ops.convert_to_numpy(scenario.graph.hidden(X["x"]))
    np.testing.assert_allclose(hidden(X)["h"], expected, rtol=1e-6)
    model = keras.saving.load_model(path / "keras" / "hidden.keras")
    np.testing.assert_allclose(model.predict_on_batch(X)["h"], expected, rtol=1e-6)
    assert sorted(p.name for p in (path / "keras").iterdir()) == ["hidden.keras", "serve.keras"]


def test_weights_that_do_not_fit(written: tuple[Helped, Path], tmp_path: Path) -> None:
    _, path = written
    arrays = load_arrays(path / "weights.safetensors")
    file = tmp_path / "weights.safetensors"
    save_arrays(file, {**arrays, "more": np.zeros(1)})
    with pytest.raises(TfaipError, match=rf"{file} does not fit the model: missing \[\], not known .* \['more'\]"):
        load_weights(Helped(load_exported_params(path)[1]), tmp_path)  # without a manifest, as of other programs
    save_arrays(file, arrays)
    write_manifest(tmp_path, {})
    load_weights(Helped(load_exported_params(path)[1]), tmp_path)
    save_arrays(file, {**arrays, "out/bias": arrays["out/bias"] + 1})
    with pytest.raises(TfaipError, match=f"{file} differs from its manifest"):
        load_weights(Helped(load_exported_params(path)[1]), tmp_path)
