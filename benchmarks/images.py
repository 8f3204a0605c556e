"""Contestants of the benchmarks: networks on synthetic images, trained by the toolkit and by bare `fit`.

Only public names of the toolkit: `guard.py` runs this file with older and newer checkouts.
"""

import functools
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pairs import Turn

from tfaip.imports import (
    ArrayDataGenerator,
    DataBase,
    DataBaseParams,
    DataGeneratorParams,
    ModelBaseParams,
    Sample,
    ScenarioBase,
    ScenarioBaseParams,
    TensorSpec,
    TrainerParams,
    TrainerPipelineParams,
)
from tfaip.trainer.params import ProgressBarMode

BACKEND = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras  # noqa: E402  (after the backend is chosen)

from tfaip.imports import GraphBase, ModelBase  # noqa: E402

RATE = 0.001
BATCH_SIZE = 16


@functools.cache
def synthetic_images(samples: int, shape: tuple[int, ...] = (28, 28)) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a class-dependent pattern, so that the loss falls; made once, both sides find it in memory."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=samples)
    patterns = rng.standard_normal(size=(10, *shape), dtype=np.float32)
    images = rng.standard_normal(size=(samples, *shape), dtype=np.float32)
    for image, label in zip(images, labels, strict=True):
        image += 0.2 * patterns[label]
    return images, labels.astype(np.int32)[:, None]


class ImagesParams(DataGeneratorParams):
    """How many images, and of what shape."""

    samples: int = 60_000
    shape: list[int] = [28, 28]

    @staticmethod
    def cls() -> type["Images"]:
        return Images


class Images(ArrayDataGenerator[ImagesParams]):
    """Synthetic images in memory."""

    def load(self) -> Sample:
        images, labels = synthetic_images(self.params.samples, tuple(self.params.shape))
        return Sample(inputs={"image": images}, targets={"label": labels})


class ImageDataParams(DataBaseParams):
    """The shape of an image."""

    shape: list[int] = [28, 28]

    @staticmethod
    def cls() -> type["ImageData"]:
        return ImageData


class ImageData(DataBase[ImageDataParams]):
    """Images with a label."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"image": TensorSpec(tuple(self.params.shape))}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"label": TensorSpec((1,), "int32")}


class Network(GraphBase["NetworkParams"]):
    """The layers."""

    def __init__(self, params: "NetworkParams", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.network = NETWORKS[params.network].build()

    def build_graph(self, inputs: dict[str, Any], training: bool | None = None) -> dict[str, Any]:
        return {"probabilities": self.network(inputs["image"])}


class NetworkModel(ModelBase["NetworkParams"]):
    """Cross entropy and accuracy."""

    def __init__(self, params: "NetworkParams", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> dict[str, Any]:
        return {"loss": keras.losses.sparse_categorical_crossentropy(targets["label"][:, 0], outputs["probabilities"])}

    def _metric(self, inputs: Any, targets: Any, outputs: Any) -> list[Any]:
        return [self.accuracy(targets["label"], outputs["probabilities"])]


class NetworkParams(ModelBaseParams):
    """Which network."""

    network: str = "mlp"

    @staticmethod
    def cls() -> type[NetworkModel]:
        return NetworkModel

    def graph_cls(self) -> type[Network]:
        return Network


class BenchmarkScenarioParams(ScenarioBaseParams[ImageDataParams, NetworkParams]):
    """Data and model."""


class BenchmarkTrainerParams(TrainerParams[BenchmarkScenarioParams, TrainerPipelineParams[ImagesParams, ImagesParams]]):
    """A training."""


class BenchmarkScenario(ScenarioBase[BenchmarkScenarioParams, BenchmarkTrainerParams]):
    """One of the networks."""


def mlp(*units: int) -> keras.Sequential:
    """28x28 -> units -> 10."""
    hidden = [keras.layers.Dense(size, activation="relu") for size in units]
    return keras.Sequential([keras.layers.Flatten(), *hidden, keras.layers.Dense(10, activation="softmax")])


def conv() -> keras.Sequential:
    """Three convolutions: steps of about 10 ms on two CPU cores."""
    return keras.Sequential(
        [
            keras.layers.Reshape((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(48, 3, activation="relu"),
            keras.layers.Conv2D(48, 3, strides=2, activation="relu"),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def table() -> keras.Sequential:
    """Table of 100,000 rows of width 32: an update changes all, of which a batch reads at most 512."""
    rows = 100_000
    return keras.Sequential(
        [
            keras.layers.Lambda(lambda x: keras.ops.cast(keras.ops.abs(x) * rows, "int32") % rows, output_shape=(32,)),
            keras.layers.Embedding(rows, 32),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


def resnet50() -> keras.Model:
    """25 million weights, 4 GFLOP forward per image of 224x224."""
    return keras.applications.ResNet50(weights=None, classes=10, input_shape=(224, 224, 3))


def transformer() -> keras.Model:
    """One encoder block of width 512 with 8 heads on 256 positions."""
    tokens = keras.Input((256, 512))
    attended = keras.layers.MultiHeadAttention(8, 64)(*[keras.layers.LayerNormalization()(tokens)] * 2)
    x = keras.layers.Add()([tokens, attended])
    wide = keras.layers.Dense(2048, activation="gelu")(keras.layers.LayerNormalization()(x))
    x = keras.layers.Add()([x, keras.layers.Dense(512)(wide)])
    pooled = keras.layers.GlobalAveragePooling1D()(x)
    return keras.Model(tokens, keras.layers.Dense(10, activation="softmax")(pooled))


@dataclass(frozen=True)
class Architecture:
    """A network.

    Args:
        build: makes it.
        shape: of an input.
    """

    build: Callable[[], keras.Model]
    shape: tuple[int, ...] = (28, 28)


NETWORKS = {
    "mlp": Architecture(functools.partial(mlp, 128)),  # steps that cost next to nothing
    "wide": Architecture(functools.partial(mlp, 2048, 2048)),
    "large": Architecture(functools.partial(mlp, 4096, 4096)),  # 20 million weights
    "conv": Architecture(conv),
    "table": Architecture(table, (32,)),
    "resnet50": Architecture(resnet50, (224, 224, 3)),
    "transformer": Architecture(transformer, (256, 512)),
}


class Begin(keras.callbacks.Callback):
    """Calls a function at the beginning of every epoch."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__()
        self.function = function

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.function()


def bare(network: str, samples: int, epochs: int, batch_size: int = BATCH_SIZE) -> Callable[[Turn], None]:
    """Run a contestant: nothing but `keras.Model.fit`."""

    def train(turn: Turn) -> None:
        images, labels = synthetic_images(samples, NETWORKS[network].shape)
        model = NETWORKS[network].build()
        model.compile(keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(images, labels, batch_size=batch_size, epochs=epochs, verbose=0, callbacks=[Begin(turn)])

    return train


def benchmark_params(
    network: str, samples: int, epochs: int, output_dir: Path | None, batch_size: int = BATCH_SIZE
) -> BenchmarkTrainerParams:
    """Return the params of the same training with the toolkit."""
    params = BenchmarkScenario.default_trainer_params()
    params.scenario.model.network = network
    params.scenario.export_serve = importlib.util.find_spec("tensorflow") is not None  # it writes the SavedModel
    params.gen.train.samples, params.val_every_n = samples, 0
    params.gen.train.shape = params.scenario.data.shape = list(NETWORKS[network].shape)
    params.gen.setup.train.batch_size = batch_size
    params.epochs, params.output_dir = epochs, None if output_dir is None else str(output_dir)
    params.learning_rate.lr = RATE
    params.progress_bar_mode = ProgressBarMode.PLAIN
    return params


def toolkit(
    network: str, samples: int, epochs: int, output_dir: Path | None, batch_size: int = BATCH_SIZE, **fields: Any
) -> Callable[[Turn], None]:
    """Run a contestant: the same training with the toolkit. `fields` are those of `TrainerParams`."""
    params = benchmark_params(network, samples, epochs, output_dir, batch_size)
    for name, value in fields.items():
        setattr(params, name, value)
    return lambda turn: (BenchmarkScenario.create_trainer(params).train([Begin(turn)]), None)[1]
