"""What an evaluation of the prediction graph leaves out, and what it must not swallow."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from test.support.tiny.model import TinyModel
from test.support.tiny.scenario import TinyScenario
from tfaip.backend.tensorflowsteps import CompiledStep
from tfaip.model.predictionstep import EvaluationModel, EvaluationStep

X = np.random.default_rng(1).normal(size=(6, 4)).astype("float32")


class Asking(TinyModel):
    """Its loss or metric asks for an output that only training has, or a target that there is not."""

    asks, key, losses = "", "attention", 0

    def _loss(self, inputs, targets, outputs):
        self.losses += 1
        if self.asks == "loss":
            return {"mse": keras.ops.square(targets["y"] - outputs[self.key])}
        return super()._loss(inputs, targets, outputs)

    def _metric(self, inputs, targets, outputs):
        return [self.error(targets["y"], outputs[self.key if self.asks == "metric" else "y"])]


def evaluated(asks, key, run_eagerly=False, cls=Asking):
    params = TinyScenario.default_params()
    scenario, asking = TinyScenario(params), cls(params.model)
    asking.asks, asking.key = asks, key
    model = EvaluationModel(asking, scenario.graph)
    model.build_symbolically(scenario.data.create_input_layers(), scenario.data.create_target_layers())
    assert asking.losses == 1  # in one trace
    step = EvaluationStep(model, run_eagerly)
    step.reset()
    outputs = step({"x": X}, {"y": X[:, :1]})
    return step.result(), np.array(outputs["y"])


@pytest.mark.backend
@pytest.mark.parametrize(("asks", "run_eagerly"), [("metric", False), ("metric", True), ("loss", False)])
def test_what_an_output_of_the_training_needs_is_left_out_and_named(asks, run_eagerly, caplog):
    with caplog.at_level(logging.INFO, "tfaip"):
        values, y = evaluated(asks, "attention", run_eagerly)
    difference = X[:, :1] - y
    expected = (
        {"mae": np.mean(np.abs(difference))}
        if asks == "loss"
        else dict.fromkeys(["loss", "mse"], np.mean(difference**2))
    )
    assert values == pytest.approx(expected, rel=1e-5)
    left_out = "no loss" if asks == "loss" else "no metrics"
    assert f"{left_out} on the prediction graph, which lacks an output of the training" in caplog.text


def test_any_other_missing_key_is_an_error():
    class Mistaken(Asking):
        def _loss(self, inputs, targets, outputs):
            return {"mse": targets["z"]}

    with pytest.raises(KeyError, match="z"):
        evaluated("", "", cls=Mistaken)


def test_one_graph_for_all_sizes_and_one_more_when_a_length_changes_and_text():
    traced = []

    def double(inputs, targets):
        traced.append(tuple(inputs["x"].shape))
        return {"sum": inputs["x"] * 2 + targets["y"]}

    step = CompiledStep(double)
    for sizes, shapes in ([(4, 3), (2, 3), (7, 3)], [(None, 3)]), ([(4, 5), (1, 9), (4, 3)], [(None, 3), (None, None)]):
        for size, length in sizes:
            x = np.arange(size * length, dtype=np.float32).reshape(size, length)
            result = step({"x": x}, {"y": np.ones((size, 1), np.float32)})
            np.testing.assert_array_equal(result["sum"].numpy(), x * 2 + 1)
        assert traced == shapes
    step = CompiledStep(lambda arrays: tf.strings.length(arrays["text"]))
    assert step({"text": np.array([["a"], ["bcd"]], object)}).numpy().tolist() == [[1], [3]]
