"""Models that a user brings: trained, resumed, exported, evaluated and predicted like any other."""

from pathlib import Path

import keras
import numpy as np
import pytest

from test.model.brought import (
    BroughtScenario,
    arrays,
    brought_params,
    weights_of,
)
from tfaip.export.formats import check_formats
from tfaip.export.modelloading import load_exported
from tfaip.predict.params import LAVParams, PredictorParams

PATHS = {
    "unnamed": ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel", "dense_2/bias", "dense_2/kernel"],
    "layer": ["bias", "kernel"],
    "subclassed": ["dropout/seed_generator/state", "forms/bias", "forms/kernel", "hidden/bias", "hidden/kernel"],
}


def test_weights_have_the_names_of_layers() -> None:
    for network, paths in PATHS.items():
        for _ in range(2):  # another build, where Keras counts on
            scenario = BroughtScenario(brought_params(network).scenario)
            scenario.graph.predict(scenario.data.create_input_layers())
            assert sorted(weights_of(scenario)) == paths


@pytest.mark.slow
@pytest.mark.parametrize("network", ["functional", "layer", "subclassed", "unnamed"])
def test_exported_evaluated_and_predicted(network: str, tmp_path: Path) -> None:
    params = brought_params(network, tmp_path / "run", epochs=2, export_final=True, skip_model_load_test=False)
    params.lav_every_n = 1
    params.scenario.export_serve = params.scenario.export_keras = True
    params.scenario.export_onnx = keras.backend.backend() == "tensorflow"
    logs = BroughtScenario.create_trainer(params).train()
    exported = tmp_path / "run" / "export"
    names, columns = params.scenario.data.inputs, arrays(seed=2)
    inputs = {name: columns[name] for name in names}

    loaded = BroughtScenario.params_from_path(exported)
    lav = BroughtScenario.create_lav(LAVParams(model_path=str(exported), silent=True), loaded)
    (results,) = lav.run([params.gen.val])
    scores = {name: logs[f"lav_l0_{name}"] for name in results}
    assert results == pytest.approx(scores, rel=1e-5)
    assert {"loss", "form_accuracy" if network == "functional" else "accuracy"} <= set(results)

    predictor = BroughtScenario.create_predictor(str(exported), PredictorParams(silent=True))
    samples = list(predictor.predict(params.gen.val))
    plain = keras.models.load_model(exported / "keras" / "serve.keras")
    outputs = plain.predict({name: inputs[name] for name in plain.input}, verbose=0)
    expected_names = {"functional": ["form", "size"], "unnamed": ["output"], "layer": ["output"]}
    assert sorted(outputs) == expected_names.get(network, ["form"])
    for name, values in outputs.items():
        got = np.array([sample.outputs[name] for sample in samples])
        np.testing.assert_allclose(got, values, rtol=1e-4, atol=1e-5)
    check = check_formats(load_exported(exported), exported, inputs)
    on_tensorflow = keras.backend.backend() == "tensorflow"
    assert {graph.format for graph in check} == {"serve", "keras", *(["onnx"] if on_tensorflow else [])}
