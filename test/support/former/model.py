"""Model and graph of the scenario in the style of tfaip 1.2."""

import keras

from test.support.former.scenario import WaveModelParams
from tfaip.imports import GraphBase, ModelBase


class Encoder(keras.layers.Layer):
    """Layers in a list, in a layer of the author."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.dense = [keras.layers.Dense(n, activation="tanh") for n in units]

    def call(self, x):
        for layer in self.dense:
            x = layer(x)
        return x


class WaveGraph(GraphBase[WaveModelParams]):
    def __init__(self, params, **kwargs):
        super().__init__(params, **kwargs)
        self.encoder = Encoder(params.units)
        self.norm = keras.layers.BatchNormalization()
        self.lstm = keras.layers.LSTM(params.steps)
        self.logits = keras.layers.Dense(2)
        self.softmax = keras.layers.Softmax()

    def build_graph(self, inputs, training=None):
        features = self.norm(self.encoder(inputs["wave"]), training=training)
        logits = self.logits(self.lstm(features))
        return {"prob": self.softmax(logits), "logits": logits}


class WaveModel(ModelBase[WaveModelParams]):
    def __init__(self, params, **kwargs):
        super().__init__(params, **kwargs)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="acc")

    def _loss(self, inputs, targets, outputs):
        loss = keras.losses.sparse_categorical_crossentropy(targets["form"], outputs["prob"])
        return {"crossentropy": loss}

    def _metric(self, inputs, targets, outputs):
        return [self.accuracy(targets["form"], outputs["prob"])]
