"""Write `models.tar.xz`: tiny SavedModels by Keras 2, with inputs and outputs that the tests compare.

Needs TensorFlow 2.15 (Python 3.11: `pip install "tensorflow==2.15.*"` in an environment of its own). The tests read the
stored archive and never run this script.
"""

import os
import tarfile
import tempfile
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

keras = tf.keras
layers = keras.layers

BATCH = {
    "seq": np.linspace(-1, 1, 2 * 6 * 3, dtype=np.float32).reshape(2, 6, 3),
    "feat": np.linspace(1, -2, 2 * 4, dtype=np.float32).reshape(2, 4),
}


def functional():
    """Dicts in and out; their keys are neither the names of the input layers nor of the output layers."""
    seq = keras.Input((6, 3), name="sequence_input")
    feat = keras.Input((4,), name="feature_input")
    x = layers.Conv1D(4, 3, padding="same", activation="relu", name="conv")(seq)
    x = layers.BatchNormalization(name="norm")(x)
    x = layers.LSTM(3, name="lstm")(x)
    y = layers.Dense(5, activation="tanh", name="hidden")(feat)
    joined = layers.Concatenate(name="join")([x, y])
    outputs = {
        "classes": layers.Dense(3, activation="softmax", name="class_head")(joined),
        "score": layers.Dense(1, name="score_head")(joined),
    }
    model = keras.Model({"seq": seq, "feat": feat}, outputs, name="functional")
    # Trained, so that the statistics have moved and the optimizer has slots with the names of the weights.
    model.compile("adam", {"classes": "mse", "score": "mse"})
    targets = {"classes": np.eye(3, dtype=np.float32)[:2], "score": np.ones((2, 1), np.float32)}
    model.fit(BATCH, targets, epochs=3, verbose=0)
    return model, BATCH


def sequential():
    """Without dicts, and with the names that Keras chose."""
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3, activation="relu"), layers.Dense(2)])
    return model, BATCH["feat"]


class Graph(layers.Layer):
    """A layer that holds all others."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.features = layers.Dense(5, activation="tanh", name="features")
        self.heads = [layers.Dense(3, name="first"), layers.Dense(1, name="second")]

    def call(self, inputs, training=None):
        x = self.features(inputs["feat"])
        return {"classes": self.heads[0](x), "score": self.heads[1](x)}


class Subclassed(keras.Model):
    """The layer, called by a model of its own class."""

    def __init__(self):
        super().__init__(name="subclassed")
        self.graph = Graph(name="graph")

    def call(self, inputs, training=None):
        return self.graph(inputs, training=training)


def subclassed():
    model = Subclassed()
    return model, {"feat": BATCH["feat"]}


def wrapped():
    """The layer, as the only one of a functional model."""
    feat = keras.Input((4,), name="feat")
    return keras.Model({"feat": feat}, Graph(name="graph")({"feat": feat}), name="wrapped"), {"feat": BATCH["feat"]}


def main():
    keras.utils.set_random_seed(1)
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        for make in (functional, sequential, subclassed, wrapped):
            model, batch = make()
            outputs = model(batch, training=False)
            outputs = outputs if isinstance(outputs, dict) else {model.output_names[0]: outputs}
            model.save(root / make.__name__, save_format="tf")
            arrays = {f"outputs/{name}": value.numpy() for name, value in outputs.items()}
            arrays |= {f"weights/{weight.name}": weight.numpy() for weight in model.weights}
            inputs = batch if isinstance(batch, dict) else {model.input_names[0]: batch}
            arrays |= {f"inputs/{name}": value for name, value in inputs.items()}
            np.savez(root / make.__name__ / "example.npz", **arrays)
        with tarfile.open(Path(__file__).with_name("models.tar.xz"), "w:xz") as archive:
            for path in sorted(root.rglob("*")):
                archive.add(path, path.relative_to(root), recursive=False, filter=_anonymous)


def _anonymous(member):
    member.uid = member.gid = member.mtime = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main()
