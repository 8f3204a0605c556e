"""Graphs of the tutorial: features of an image by an MLP or a CNN, and their classification."""

from typing import Any

import keras
import numpy as np
from keras import ops

from tfaip.model.graphbase import GraphBase
from tfaip.model.layerbase import LayerBase
from tfaip.model.tensorboardwriter import TensorboardWriter
from tfaip.scenario.tutorial.full.data import NUM_CLASSES
from tfaip.scenario.tutorial.full.modelparams import CNNGraphParams, MLPGraphParams, TutorialModelParams
from tfaip.util.typing import Tensor, TensorDict

SHOWN = 8


class TutorialGraph(GraphBase[TutorialModelParams]):
    """Classification of images: the chosen graph, then one layer with a unit per class."""

    def __init__(self, params: TutorialModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.features = params.graph.create()
        self.dropout = keras.layers.Dropout(params.graph.dropout)
        self.logits = keras.layers.Dense(NUM_CLASSES)
        self.unsure_images = TensorboardWriter(func=first_images, name="unsure_images")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        features = self.features(inputs["img"], training=training)
        logits = self.logits(self.dropout(features, training=training))
        probabilities = ops.softmax(logits)
        # TensorBoard shows the images of a batch, those that the model is least sure about first.
        least_sure_first = ops.argsort(ops.max(probabilities, axis=-1))
        self.add_tensorboard(self.unsure_images, ops.take(inputs["img"], least_sure_first, axis=0))
        return {"logits": logits, "prob": probabilities, "class": ops.argmax(logits, axis=-1)}


class MLPGraph(LayerBase[MLPGraphParams]):
    """Features `[batch, units]` of images by fully connected layers."""

    def __init__(self, params: MLPGraphParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        options = layer_options(self)
        self.flatten = keras.layers.Flatten()
        self.hidden = [keras.layers.Dense(units, **options) for units in params.units]

    def call(self, images: Tensor) -> Tensor:
        features = self.flatten(images)
        for layer in self.hidden:
            features = layer(features)
        return features


class CNNGraph(LayerBase[CNNGraphParams]):
    """Features `[batch, units]` of images by convolutions, each followed by pooling."""

    def __init__(self, params: CNNGraphParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        options = layer_options(self)
        size = params.kernel_size
        self.convolutions = [keras.layers.Conv2D(n, size, padding="same", **options) for n in params.filters]
        self.pooling = keras.layers.MaxPooling2D()
        self.flatten = keras.layers.Flatten()
        self.hidden = keras.layers.Dense(params.units, **options)

    def call(self, images: Tensor) -> Tensor:
        for convolution in self.convolutions:
            images = self.pooling(convolution(images))
        return self.hidden(self.flatten(images))


def layer_options(graph: LayerBase[Any]) -> dict[str, Any]:
    """Return the arguments of all hidden layers, most of them options of every `LayerBase`."""
    return {
        "activation": "relu",
        "kernel_initializer": graph.kernel_initializer,
        "bias_initializer": graph.bias_initializer,
        "kernel_regularizer": graph.kernel_regularizer,
    }


def first_images(name: str, images: np.ndarray[Any, Any], step: int) -> np.ndarray[Any, Any]:
    """Return the first images of a batch (`[batch, height, width, 1]`, values in [0, 1])."""
    return images[:SHOWN]
