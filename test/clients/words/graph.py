"""Layers of the words."""

import tensorflow as tf

from test.clients.words.params import WordsModelParams
from tfaip.model.graphbase import GraphBase


class WordsGraph(GraphBase[WordsModelParams]):
    def __init__(self, n_classes, temperature=1.0, **kwargs):
        super(WordsGraph, self).__init__(**kwargs)
        self.n_classes = n_classes
        self.temperature = temperature
        self.hidden = tf.keras.layers.Dense(self._params.units, activation="tanh", name="hidden")
        self.dropout = tf.keras.layers.Dropout(self._params.dropout)
        self.logits = tf.keras.layers.Dense(n_classes, name="logits")

    def build_graph(self, inputs, training=None):
        word = inputs["word"]
        lengths = tf.squeeze(inputs["length"], axis=-1)
        mask = tf.cast(tf.sequence_mask(lengths, tf.shape(word)[1]), "float32")
        features = self.dropout(self.hidden(word), training=training)
        total = tf.reduce_sum(features * tf.expand_dims(mask, axis=-1), axis=1)
        mean = total / tf.cast(inputs["length"], "float32")
        logits = self.logits(mean) / self.temperature
        return {"logits": logits, "prob": tf.nn.softmax(logits), "class": tf.argmax(logits, axis=-1)}
