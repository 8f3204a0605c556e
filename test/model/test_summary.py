"""Summary of models: paths, output shapes, parameters; worked out by hand."""

from typing import Any

import keras

from tfaip.model.summary import summarize, summary_lines


class Scale(keras.layers.Layer):
    """Multiplies by a weight of its own; what it computes is not declared."""

    def build(self, shape: Any) -> None:
        self.factor = self.add_weight(name="factor", shape=(shape[-1],))

    def call(self, x: Any) -> Any:
        return x * self.factor


class Block(keras.layers.Layer):
    """A layer of the user: own weight, two layers of Keras, one of them without weights."""

    def __init__(self) -> None:
        super().__init__()
        self.second = keras.layers.Dense(3)
        self.first = keras.layers.Dense(4, use_bias=False)
        self.dropout = keras.layers.Dropout(0.5)
        self.scale = Scale()

    def build(self, shape: Any) -> None:
        self.offset = self.add_weight(name="offset", shape=(shape[-1],))

    def call(self, x: Any) -> Any:
        return self.second(self.dropout(self.scale(self.first(x + self.offset))))


class Network(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = [Block(), Block()]
        self.again = self.blocks[0].second

    def call(self, x: Any) -> Any:
        return self.blocks[1](self.blocks[0](x))


class Holder(keras.layers.Layer):
    """Holds layers that were called before."""

    def __init__(self, *layers: keras.layers.Layer) -> None:
        super().__init__()
        self.layers = list(layers)


def built(layer: keras.layers.Layer, *shape: int | None) -> keras.layers.Layer:
    layer(keras.Input(shape))
    return layer


def test_layers_come_in_the_order_of_their_definition_and_count_once() -> None:
    assert summarize(built(Network(), 2)) == [
        ("blocks/0", "Block", "", 2, 2),
        ("again", "Dense", "3", 4 * 3 + 3, 15),  # the shortest path to the layer
        ("blocks/0/first", "Dense", "4", 2 * 4, 8),
        ("blocks/0/dropout", "Dropout", "", 0, 0),
        ("blocks/0/scale", "Scale", "", 4, 4),
        ("blocks/1", "Block", "", 3, 3),
        ("blocks/1/second", "Dense", "3", 4 * 3 + 3, 15),
        ("blocks/1/first", "Dense", "4", 3 * 4, 12),
        ("blocks/1/dropout", "Dropout", "", 0, 0),
        ("blocks/1/scale", "Scale", "", 4, 4),
    ]


def test_layers_that_keras_has_made_of_others_are_one_row() -> None:
    recurrent = keras.layers.Bidirectional(keras.layers.LSTM(5, return_sequences=True))
    attention = keras.layers.MultiHeadAttention(2, 3)
    attended = recurrent(keras.Input((None, 4)))
    attention(attended, attended)
    scale, tied = built(Scale(), 3), Scale()
    tied.factor = scale.factor  # counted once
    # Gates: 4 * 5 * (4 + 5 + 1), twice; projections of 10 numbers to 2 * 3, three times, and back.
    assert summarize(Holder(recurrent, attention, scale, tied)) == [
        ("layers/0", "Bidirectional", "?x10", 400, 400),
        ("layers/1", "MultiHeadAttention", "?x10", 3 * (60 + 6) + 70, 268),
        ("layers/2", "Scale", "", 3, 3),
        ("layers/3", "Scale", "", 0, 0),
    ]


def test_brought_models_show_the_shapes_of_all_layers() -> None:
    x = keras.Input((8, 8, 3), name="image")
    y = keras.layers.Conv2D(4, 3, name="features")(x)
    y = keras.layers.BatchNormalization(name="norm")(y)
    y = keras.layers.GlobalAveragePooling2D(name="mean")(y)
    outputs = {"a": keras.layers.Dense(2, name="a")(y), "b": keras.layers.Dense(1, name="b")(y)}
    model = keras.Model(x, outputs)
    model.get_layer("a").trainable = False
    holder = Holder(model)
    assert [row[1:] for row in summarize(holder)] == [
        ("Conv2D", "6x6x4", 3 * 3 * 3 * 4 + 4, 112),
        ("BatchNormalization", "6x6x4", 16, 8),
        ("GlobalAveragePooling2D", "", 0, 0),
        ("Dense", "2", 10, 0),
        ("Dense", "1", 5, 5),
    ]
    assert summary_lines(holder)[:3] == [
        "layer              class                   output  parameters  trained",
        "layers/0/features  Conv2D                  6x6x4          112      112",
        "layers/0/norm      BatchNormalization      6x6x4           16        8",
    ]
    assert summary_lines(holder)[-1] == "143 parameters in 5 layers, 18 of them not trained"
