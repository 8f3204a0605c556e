"""A scenario whose model is a Keras model that `build_model` makes; which one, its params say."""

from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import layers, ops

from test.trainer.line import by_hand
from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.model.keras_objects import Initializer
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.params import post_init
from tfaip.params.fields import shared
from tfaip.scenario.scenario import Scenario
from tfaip.scenario.scenariobase import ScenarioBase

SIZE, POINTS, WORDS, CLASSES = 48, 6, 5, 3
SPECS = {
    "points": TensorSpec((POINTS,), "float32"),
    "words": TensorSpec((WORDS,), "int32"),
    "form": TensorSpec((1,), "int32"),
    "size": TensorSpec((1,), "float32"),
}


def arrays(size: int = SIZE, seed: int = 1) -> dict[str, np.ndarray]:
    """All columns; `words` end with zeros, the targets follow from the inputs."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size, POINTS)).astype("float32")
    words = rng.integers(1, 9, (size, WORDS)).astype("int32")
    words[np.arange(WORDS) >= rng.integers(1, WORDS + 1, (size, 1))] = 0
    form = np.argmax(points[:, :CLASSES], axis=1)[:, None].astype("int32")
    total = points.sum(axis=1, keepdims=True)
    return {"points": points, "words": words, "form": form, "size": total}


class BroughtDataParams(DataBaseParams, cls=":BroughtData"):
    inputs: list[str] = field(default_factory=lambda: ["points"])
    targets: list[str] = field(default_factory=lambda: ["form"])


class BroughtData(DataBase[BroughtDataParams]):
    def _input_layer_specs(self) -> dict[str, Any]:
        return {name: SPECS[name] for name in self.params.inputs}

    def _target_layer_specs(self) -> dict[str, Any]:
        return {name: SPECS[name] for name in self.params.targets}


class Columns(Generator, ArrayDataGenerator[Any]):
    """The inputs and targets that the data name."""

    data: BroughtDataParams = shared()
    size: int = SIZE
    seed: int = 1

    def load(self) -> Sample:
        columns = arrays(self.size, self.seed)
        return Sample(
            inputs={name: columns[name] for name in self.data.inputs},
            targets={name: columns[name] for name in self.data.targets},
        )


class BroughtModelParams(ModelBaseParams, cls=":BroughtModel"):
    network: str = "unnamed"
    units: int = 8
    start: Initializer = Initializer("glorot_uniform")


@keras.saving.register_keras_serializable("brought")
class Subclassed(keras.Model):
    """A model whose `call` no graph of Keras knows."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.hidden = layers.Dense(units, activation="relu")
        self.dropout = layers.Dropout(0.3, seed=4)
        self.forms = layers.Dense(CLASSES)

    def call(self, points: Any, training: bool = False) -> Any:
        return {"form": self.forms(self.dropout(self.hidden(points), training=training))}


def _unnamed(units: int) -> keras.Model:
    return keras.Sequential([layers.Dense(units, "relu"), layers.Dense(units, "relu"), layers.Dense(CLASSES)])


def _functional(units: int) -> keras.Model:
    """Two inputs, two outputs, a mask, and a layer that is called twice."""
    points = keras.Input((POINTS,), name="points")
    words = keras.Input((WORDS,), dtype="int32", name="words")
    embedded = layers.Embedding(10, units, mask_zero=True, name="embedding")(words)
    read = layers.LSTM(units, name="reader")(embedded)
    shared = layers.Dense(units, "tanh", name="shared")
    features = ops.concatenate([shared(shared(layers.Dense(units, name="first")(points))), read], axis=-1)
    form = layers.Dense(CLASSES, activation="softmax", name="form")(features)
    size = layers.Dense(1, name="size")(features)
    return keras.Model([points, words], [form, size])


NETWORKS: dict[str, Callable[[int], Any]] = {
    "unnamed": _unnamed,
    "functional": _functional,
    "subclassed": Subclassed,
    "layer": lambda units: layers.Dense(CLASSES),
}


class BroughtModel(ModelBase[BroughtModelParams]):
    metrics = ("accuracy",)

    def build_model(self) -> keras.layers.Layer:
        assert list(self.data.input_layer_specs()) == self.data.params.inputs
        return NETWORKS[self.params.network](self.params.units)

    def loss(self) -> Any:
        if self.params.network == "functional":
            return {"form": "sparse_categorical_crossentropy", "size": keras.losses.Huber(delta=0.5)}
        return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


class BroughtScenario(Scenario):
    data, model, train, val = BroughtDataParams, BroughtModelParams, Columns(), Columns(seed=2)


def brought_params(network: str, output_dir: Path | None = None, **fields: Any) -> Any:
    """Params of a training: 48 samples in batches of 16, SGD with rate 0.1. `fields` are those of TrainerParams."""
    params = BroughtScenario.default_trainer_params()
    params.scenario.model.network = network
    data = params.scenario.data
    if network == "functional":
        data.inputs, data.targets = ["points", "words"], ["form", "size"]
    post_init(params)
    return by_hand(params, output_dir, lr=0.1, **fields)


def weights_of(scenario: ScenarioBase[Any, Any]) -> dict[str, np.ndarray]:
    """The weights of the graph by path."""
    return variable_arrays(variables_by_path(scenario.graph))
