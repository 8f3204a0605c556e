"""Models that a user brings: trained, resumed, exported, evaluated and predicted like any other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.brought import (
    BroughtModelParams,
    BroughtScenario,
    BroughtTrainerParams,
    WrittenGraph,
    WrittenModelParams,
    arrays,
    brought_params,
    weights_of,
)
from test.trainer.line import CallbackOf
from tfaip.export.formats import check_formats
from tfaip.export.modelloading import load_exported
from tfaip.predict.params import LAVParams, PredictorParams
from tfaip.trainer.optimizer.optimizers import OptimizerGroupParams
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.scheduler.rules import Interpolation
from tfaip.trainer.schedules import ScheduleParams


def train(params: BroughtTrainerParams, **resume: Any) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    trainer = BroughtScenario.create_trainer(params, **resume)
    logs = trainer.train()
    return logs, weights_of(trainer.scenario)


def assert_equal(weights: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    assert sorted(weights) == sorted(expected)
    for path, array in expected.items():
        np.testing.assert_array_equal(weights[path], array, err_msg=path)


PATHS = {
    "unnamed": ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel", "dense_2/bias", "dense_2/kernel"],
    "layer": ["bias", "kernel"],
    "subclassed": ["dropout/seed_generator/state", "forms/bias", "forms/kernel", "hidden/bias", "hidden/kernel"],
}


@pytest.mark.slow
@pytest.mark.parametrize("network", PATHS)
def test_weights_have_the_names_of_layers(network: str) -> None:
    for _ in range(2):  # another build, where Keras counts on
        _, weights = train(brought_params(network))
        assert sorted(weights) == PATHS[network]


@pytest.mark.slow
def test_same_weights_as_a_graph_class() -> None:
    logs, brought = train(brought_params("sequential", epochs=3))
    params = brought_params("sequential", epochs=3)
    params.scenario.model = WrittenModelParams()
    written_logs, written = train(params)
    assert_equal(brought, written)
    assert logs == written_logs
    assert {"loss", "accuracy", "val_loss", "val_accuracy"} <= set(logs)


class FirstWeights(keras.callbacks.Callback):
    """Keeps the weights of before the first update."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[np.ndarray] = []

    def on_train_begin(self, logs: Any = None) -> None:
        self.weights = [np.array(ops.convert_to_numpy(v)) for v in self.model.graph.network.variables]


@dataclass
class AlsoAGraphParams(BroughtModelParams):
    """Params that inherit a graph class, for a model that brings its network."""

    def graph_cls(self) -> type[Any]:
        return GraphWithData


class GraphWithData(WrittenGraph):
    """A graph that is given the data."""

    def __init__(self, params: Any, data: Any = None, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)


@pytest.mark.slow
def test_a_graph_class_is_ignored_where_the_model_brings_its_network() -> None:
    params = brought_params("sequential", epochs=1)
    params.scenario.model = AlsoAGraphParams()
    logs, weights = train(params)
    assert sorted(weights) == ["form/bias", "form/kernel", "hidden/bias", "hidden/kernel"]
    params.scenario.model = BroughtModelParams()
    assert_equal(weights, train(params)[1])


@pytest.mark.slow
@pytest.mark.backend
def test_masked_words_do_not_count() -> None:
    logs, weights = train(brought_params("tagged", epochs=1, learning_rate=ConstantParams(lr=0.0)))
    words = arrays()["words"]
    logits = weights["embedding/embeddings"][words] @ weights["tags/kernel"] + weights["tags/bias"]
    losses = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, words[..., None], -1)[..., 0]
    batches = [losses[start : start + 16][words[start : start + 16] > 0].mean() for start in (0, 16, 32)]
    assert logs["loss"] == pytest.approx(np.mean(batches), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("network", ["stateful", "functional", "subclassed"])
@pytest.mark.backend
def test_resumed_bit_for_bit(network: str, tmp_path: Path) -> None:
    params = brought_params(network, tmp_path / "run", epochs=3, keep_checkpoints=3)
    logs, expected = train(params)
    resumed_logs, resumed = train(params, restore=True, checkpoint="epoch_0001")
    assert_equal(resumed, expected)
    assert resumed_logs == logs


@pytest.mark.slow
@pytest.mark.parametrize("network", ["functional", "layer", "subclassed", "tagged", "unnamed"])
def test_exported_evaluated_and_predicted(network: str, tmp_path: Path) -> None:
    params = brought_params(network, tmp_path / "run", epochs=2, export_final=True, skip_model_load_test=False)
    params.lav_every_n = 1
    params.scenario.export_serve = params.scenario.export_keras = True
    params.scenario.export_onnx = keras.backend.backend() == "tensorflow"
    logs, _ = train(params)
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
    expected_names = {"functional": ["form", "size"], "tagged": ["tags"], "unnamed": ["output"], "layer": ["output"]}
    assert sorted(outputs) == expected_names.get(network, ["form"])
    for name, values in outputs.items():
        got = np.array([sample.outputs[name] for sample in samples])
        np.testing.assert_allclose(got, values, rtol=1e-4, atol=1e-5)
    check = check_formats(load_exported(exported), exported, inputs)
    on_tensorflow = keras.backend.backend() == "tensorflow"
    assert {graph.format for graph in check} == {"serve", "keras", *(["onnx"] if on_tensorflow else [])}


def test_frozen_by_the_name_of_a_layer() -> None:
    first = FirstWeights()
    params = brought_params("sequential", no_train_scope="hidden")
    trainer = BroughtScenario.create_trainer(params)
    trainer.train(callbacks=[first])
    before = dict(zip(["hidden/kernel", "hidden/bias", "form/kernel", "form/bias"], first.weights, strict=True))
    after = weights_of(trainer.scenario)
    changed = [path for path in before if not np.array_equal(before[path], after[path])]
    assert changed == ["form/kernel", "form/bias"]


@pytest.mark.slow
def test_a_part_of_the_weights_is_taken_over(tmp_path: Path) -> None:
    params = brought_params("sequential", tmp_path / "first", export_final=True)
    _, source = train(params)
    params = brought_params("stateful", learning_rate=ConstantParams(lr=0.0))
    params.warmstart.model, params.warmstart.include = [str(tmp_path / "first" / "export")], "hidden/.*"
    _, taken = train(params)
    np.testing.assert_array_equal(taken["hidden/kernel"], source["hidden/kernel"])
    assert not np.array_equal(taken["form/kernel"], source["form/kernel"])


@pytest.mark.slow
def test_a_group_of_weights_has_its_own_rate() -> None:
    params = brought_params("sequential", epochs=2)
    params.optimizer.groups = [OptimizerGroupParams(match="form/.*", lr_factor=0.0)]
    first = FirstWeights()
    trainer = BroughtScenario.create_trainer(params)
    trainer.train(callbacks=[first])
    after = weights_of(trainer.scenario)
    np.testing.assert_array_equal(after["form/kernel"], first.weights[2])
    assert not np.array_equal(after["hidden/kernel"], first.weights[0])


@pytest.mark.slow
@pytest.mark.parametrize("network", ["stateful", "subclassed"])
def test_the_rate_of_a_dropout_is_scheduled(network: str, tmp_path: Path) -> None:
    """At a rate of almost 1 in the second epoch, the gradients of what the dropped units read and feed are 0."""
    schedule = ScheduleParams("graph.dropout.rate", {0: 0.0, 1: 0.999999}, Interpolation.STEP)
    params = brought_params(network, tmp_path / "run", epochs=2, schedules=[schedule], export_final=True)
    params.scenario.export_keras = True
    seen: list[dict[str, np.ndarray]] = []
    keep = CallbackOf(on_epoch_end=lambda epoch, logs: seen.append(weights_of(trainer.scenario)))
    trainer = BroughtScenario.create_trainer(params)
    trainer.train([keep])
    path, bias = ("norm/gamma", "form/bias") if network == "stateful" else ("hidden/kernel", "forms/bias")
    changed = {name for name in seen[0] if not np.array_equal(seen[0][name], seen[1][name])}
    assert bias in changed
    assert not changed & {path, bias.replace("bias", "kernel")}
    # The file has the layer as it was trained last.
    stored = keras.models.load_model(tmp_path / "run" / "export" / "keras" / "serve.keras")
    assert [layer.rate for layer in stored._flatten_layers() if isinstance(layer, keras.layers.Dropout)] == [0.999999]


@pytest.mark.slow
@pytest.mark.backend
def test_averages_are_validated_and_exported(tmp_path: Path) -> None:
    plain, weights = train(brought_params("sequential", epochs=2))
    params = brought_params("sequential", tmp_path / "run", epochs=2, calc_ema=0.9, export_final=True)
    averaged, trained = train(params)
    assert_equal(trained, weights)
    assert averaged["loss"] == plain["loss"]
    assert averaged["val_loss"] != plain["val_loss"]
    exported = weights_of(load_exported(tmp_path / "run" / "export"))
    assert sorted(exported) == sorted(trained)
    assert not np.array_equal(exported["form/kernel"], trained["form/kernel"])
