"""The tutorial's graphs, model and evaluator: shapes, numbers, pictures."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from tfaip.model.tensorboardwriter import collect_tensorboard_values
from tfaip.scenario.tutorial.full.model import TutorialModel
from tfaip.scenario.tutorial.full.modelparams import CNNGraphParams, GraphParams, MLPGraphParams, TutorialModelParams


@pytest.mark.parametrize("graph", [MLPGraphParams, CNNGraphParams])
def test_layer_options_reach_the_layers(graph: type[GraphParams]) -> None:
    params = graph(dropout=0.5, kernel_initializer="ones", bias_initializer="zeros", kernel_regularizer="l2")
    built = TutorialModelParams(graph=params).create_graph()
    images = {"img": np.ones((1, 8, 8, 1), "float32")}
    first, second = (keras.ops.convert_to_numpy(built.predict(images)["logits"]) for _ in range(2))
    trained = keras.ops.convert_to_numpy(built.train(images, {}, training=True)["logits"])
    assert np.array_equal(first, second)
    assert not np.allclose(first, trained)  # dropout
    kernels = [weight for weight in built.features.weights if weight.name == "kernel"]
    assert all(np.all(keras.ops.convert_to_numpy(kernel) == 1) for kernel in kernels)
    assert len(built.losses) == len(kernels) >= 2


def test_loss_metric_and_best_setting() -> None:
    model = TutorialModel(TutorialModelParams())
    targets = {"label": np.array([[3], [1]], "int32")}
    logits = np.zeros((2, 10), "float32")
    logits[0, 3] = np.log(9)  # probability 9 / 18 for the right class, the other sample is undecided: 1 / 10
    outputs = {"logits": logits, "prob": keras.ops.softmax(logits)}
    loss = keras.ops.convert_to_numpy(model._loss({}, targets, outputs)["crossentropy"])
    np.testing.assert_allclose(loss, [np.log(2), np.log(10)], rtol=1e-5)
    (accuracy,) = model._metric({}, targets, outputs)
    assert float(accuracy) == 0.5  # of ten equal probabilities the first is taken: class 0, not 1
    assert model._best_logging_settings() == ("max", "acc")


def test_the_least_sure_images_are_shown_first() -> None:
    built = TutorialModelParams(graph=MLPGraphParams()).create_graph()
    images = np.random.default_rng(1).random((9, 8, 8, 1), "float32")
    built.predict({"img": images})  # builds the layers
    with collect_tensorboard_values() as collected:
        outputs = built.predict({"img": images})
    (shown,) = collected
    order = np.argsort(keras.ops.convert_to_numpy(outputs["prob"]).max(axis=-1))
    assert shown.writer.name == "unsure_images"
    np.testing.assert_array_equal(shown.value, images[order])
    np.testing.assert_array_equal(shown.writer.func("unsure_images", shown.value, 1), images[order[:8]])
