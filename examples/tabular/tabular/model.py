"""Dense layers on the numbers and an embedding of the category."""

import keras
from keras import layers

from tabular.scenario import NUMBERS
from tfaip.imports import ModelBase


class TableModel(ModelBase):
    """A functional model of Keras; its output is compared with the target of its name."""

    loss = "huber"

    def build_model(self) -> keras.Model:
        numbers = keras.Input((len(NUMBERS),), name="numbers")
        sex = keras.Input((1,), dtype="int32", name="sex")
        x = layers.Concatenate()([numbers, layers.Flatten()(layers.Embedding(2, 4)(sex))])
        for units in self.params.units:
            x = layers.Dropout(self.params.dropout)(layers.Dense(units, activation="relu")(x))
        return keras.Model([numbers, sex], layers.Dense(1, name="progression")(x))
