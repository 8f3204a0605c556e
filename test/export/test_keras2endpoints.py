"""SavedModels that Keras 2 wrote, called by the names that their author gave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from test.support.keras2 import example, keras_2_models
from tfaip.data.specs import TensorSpec
from tfaip.export.savedmodelformat import ServedModel


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return keras_2_models(tmp_path_factory)


@pytest.mark.parametrize(
    "name", [pytest.param("functional", marks=pytest.mark.backend), "sequential", "subclassed", "wrapped"]
)
def test_the_outputs_that_keras_2_computed(name: str, models: Path) -> None:
    model, inputs = ServedModel(models / name), example(models / name, "inputs")
    expected = example(models / name, "outputs")
    assert (set(model.inputs), set(model.outputs)) == (set(inputs), set(expected))
    outputs = model(inputs)
    for output, value in expected.items():
        # Other versions of TensorFlow add in another order.
        np.testing.assert_allclose(outputs[output], value, rtol=1e-5, atol=1e-6)


def test_names_and_shapes(models: Path) -> None:
    model = ServedModel(models / "functional")
    assert model.inputs == {"seq": TensorSpec((None, 6, 3), "float32"), "feat": TensorSpec((None, 4), "float32")}
    assert model.outputs == {"classes": TensorSpec((None, 3), "float32"), "score": TensorSpec((None, 1), "float32")}
    model.require_inputs({"seq": TensorSpec((6, 3)), "feat": TensorSpec((4,))})


def test_an_endpoint_that_is_named_has_its_own_names(models: Path) -> None:
    model = ServedModel(models / "functional", "serving_default")
    assert set(model.inputs) == {"sequence_input", "feature_input"}
    assert set(model.outputs) == {"class_head", "score_head"}
    inputs = example(models / "functional", "inputs")
    outputs = model({"sequence_input": inputs["seq"], "feature_input": inputs["feat"]})
    expected = example(models / "functional", "outputs")
    np.testing.assert_allclose(outputs["class_head"], expected["classes"], rtol=1e-5, atol=1e-6)


class Called(tf.Module):  # type: ignore[misc]
    """What is called is something else than what is served; `keras_api` makes it look like a model of Keras 2."""

    def __init__(self, call: Callable[..., Any], with_mark: bool) -> None:
        super().__init__()
        self.weight = tf.Variable(2.0)
        if with_mark:
            self.keras_api = tf.Module()
        self.call = tf.function(lambda inputs, training: call(self.weight * inputs["x"]))

    @tf.function  # type: ignore[untyped-decorator]
    def __call__(self, inputs: Any, training: bool = False) -> Any:
        return self.call(inputs, training)


SPEC = tf.TensorSpec((None, 4), tf.float32, name="x")
ROW = np.ones((1, 4), np.float32)


@pytest.mark.parametrize(
    ("call", "with_mark", "names"),
    [
        (lambda x: {"called": x}, True, ["called"]),
        (lambda x: {"called": x}, False, ["served"]),
        (lambda x: {"called": x[:, :2]}, True, ["served"]),
        (lambda x: {"called": x, "more": x}, True, ["served"]),
        (lambda x: x, True, ["served"]),
        (lambda x: {"called": [x]}, True, ["served"]),
    ],
    ids=["renamed", "of another origin", "another shape", "another number", "without a name", "nested"],
)
def test_when_the_names_of_the_call_count(
    call: Callable[..., Any], with_mark: bool, names: list[str], tmp_path: Path
) -> None:
    module = Called(call, with_mark)
    for training in (True, False):
        module.__call__.get_concrete_function({"x": SPEC}, training=training)
    served = tf.function(lambda x: {"served": module.weight * x}, input_signature=[SPEC])
    tf.saved_model.save(module, str(tmp_path / "model"), signatures={"serving_default": served})
    model = ServedModel(tmp_path / "model")
    assert list(model.outputs) == names
    assert model({"x": ROW})[names[0]].tolist() == [[2.0] * 4]
