"""Contestants of the benchmarks: networks on synthetic images, trained by the toolkit and by bare `fit`."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pairs import Turn

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.generators.arrays import ArrayDataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import pai_dataclass
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import ProgressBarMode, TrainerParams, TrainerPipelineParams
from tfaip.util.backend import import_backend

BACKEND = import_backend()

import keras  # noqa: E402  (after the backend is chosen)

from tfaip.model.graphbase import GraphBase  # noqa: E402
from tfaip.model.modelbase import ModelBase  # noqa: E402

RATE = 0.001
BATCH_SIZE = 16


def synthetic_images(samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a class-dependent pattern, so that the loss falls."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=samples)
    patterns = rng.normal(size=(10, 28, 28))
    images = (rng.normal(size=(samples, 28, 28)) + 0.2 * patterns[labels]).astype(np.float32)
    return images, labels.astype(np.int32)[:, None]


@pai_dataclass
@dataclass
class ImagesParams(DataGeneratorParams):
    """How many images."""

    samples: int = 60_000

    @staticmethod
    def cls() -> type["Images"]:
        return Images


class Images(ArrayDataGenerator[ImagesParams]):
    """Synthetic images in memory."""

    def load(self) -> Sample:
        images, labels = synthetic_images(self.params.samples)
        return Sample(inputs={"image": images}, targets={"label": labels})


@pai_dataclass
@dataclass
class ImageDataParams(DataBaseParams):
    """No options."""

    @staticmethod
    def cls() -> type["ImageData"]:
        return ImageData


class ImageData(DataBase[ImageDataParams]):
    """28x28 images with a label."""

    def _input_layer_specs(self) -> dict[str, TensorSpec]:
        return {"image": TensorSpec((28, 28))}

    def _target_layer_specs(self) -> dict[str, TensorSpec]:
        return {"label": TensorSpec((1,), "int32")}


class Network(GraphBase["NetworkParams"]):
    """The layers."""

    def __init__(self, params: "NetworkParams", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.network = NETWORKS[params.network]()

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


@pai_dataclass
@dataclass
class NetworkParams(ModelBaseParams):
    """Which network."""

    network: str = "mlp"

    @staticmethod
    def cls() -> type[NetworkModel]:
        return NetworkModel

    def graph_cls(self) -> type[Network]:
        return Network


@pai_dataclass
@dataclass
class BenchmarkScenarioParams(ScenarioBaseParams[ImageDataParams, NetworkParams]):
    """Data and model."""


@pai_dataclass
@dataclass
class BenchmarkTrainerParams(TrainerParams[BenchmarkScenarioParams, TrainerPipelineParams[ImagesParams, ImagesParams]]):
    """A training."""


class BenchmarkScenario(ScenarioBase[BenchmarkScenarioParams, BenchmarkTrainerParams]):
    """One of the networks."""


def mlp() -> keras.Sequential:
    """28x28 -> 128 -> 10: steps that cost next to nothing."""
    return keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


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


NETWORKS = {"mlp": mlp, "conv": conv}


class Begin(keras.callbacks.Callback):
    """Calls a function at the beginning of every epoch."""

    def __init__(self, function: Callable[[], None]) -> None:
        super().__init__()
        self.function = function

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.function()


def bare(network: str, samples: int, epochs: int) -> Callable[[Turn], None]:
    """A contestant: nothing but `keras.Model.fit`."""

    def train(turn: Turn) -> None:
        images, labels = synthetic_images(samples)
        model = NETWORKS[network]()
        model.compile(keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(images, labels, batch_size=BATCH_SIZE, epochs=epochs, verbose=0, callbacks=[Begin(turn)])

    return train


def toolkit(network: str, samples: int, epochs: int, output_dir: Path | None, **fields: Any) -> Callable[[Turn], None]:
    """A contestant: the same training with the toolkit. `fields` are those of `TrainerParams`."""
    params = BenchmarkScenario.default_trainer_params()
    params.scenario.model.network = network
    params.gen.train.samples, params.gen.val.samples = samples, 0
    params.gen.setup.train.batch_size = BATCH_SIZE
    params.epochs, params.output_dir = epochs, None if output_dir is None else str(output_dir)
    params.learning_rate.lr = RATE
    params.progress_bar_mode = ProgressBarMode.PLAIN
    for name, value in fields.items():
        setattr(params, name, value)
    return lambda turn: (BenchmarkScenario.create_trainer(params).train([Begin(turn)]), None)[1]
