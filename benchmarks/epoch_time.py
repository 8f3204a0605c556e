"""Wall time of an epoch: the toolkit against bare `keras.Model.fit` on the same arrays, model and settings.

    python benchmarks/epoch_time.py [--pairs 7] [--samples 60000]
    KERAS_BACKEND=jax python benchmarks/epoch_time.py

Both train a tiny MLP (28x28 -> 128 -> 10, batch 16, Adam) in one process, epoch by epoch in turn, after a warm-up epoch
of each. The toolkit runs with default params: its epochs include the log, the checkpoint, the history, TensorBoard
events and the export of the best model (which, without validation, is every epoch whose loss falls).
"""

import argparse
import logging
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

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

UNITS = 128
RATE = 0.001


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


class MLP(GraphBase["MLPParams"]):
    """One hidden layer."""

    def __init__(self, params: "MLPParams", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.network = mlp_layers()

    def build_graph(self, inputs: dict[str, Any], training: bool | None = None) -> dict[str, Any]:
        return {"probabilities": self.network(inputs["image"])}


class MLPModel(ModelBase["MLPParams"]):
    """Cross entropy and accuracy."""

    def __init__(self, params: "MLPParams", **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.accuracy = keras.metrics.SparseCategoricalAccuracy(name="accuracy")

    def _loss(self, inputs: Any, targets: Any, outputs: Any) -> dict[str, Any]:
        return {"loss": keras.losses.sparse_categorical_crossentropy(targets["label"][:, 0], outputs["probabilities"])}

    def _metric(self, inputs: Any, targets: Any, outputs: Any) -> list[Any]:
        return [self.accuracy(targets["label"], outputs["probabilities"])]


@pai_dataclass
@dataclass
class MLPParams(ModelBaseParams):
    """No options."""

    @staticmethod
    def cls() -> type[MLPModel]:
        return MLPModel

    def graph_cls(self) -> type[MLP]:
        return MLP


@pai_dataclass
@dataclass
class BenchmarkScenarioParams(ScenarioBaseParams[ImageDataParams, MLPParams]):
    """Data and model."""


@pai_dataclass
@dataclass
class BenchmarkTrainerParams(TrainerParams[BenchmarkScenarioParams, TrainerPipelineParams[ImagesParams, ImagesParams]]):
    """A training."""


class BenchmarkScenario(ScenarioBase[BenchmarkScenarioParams, BenchmarkTrainerParams]):
    """The tiny MLP."""


def mlp_layers() -> keras.Sequential:
    """The layers that both train."""
    return keras.Sequential(
        [
            keras.layers.Flatten(),
            keras.layers.Dense(UNITS, activation="relu"),
            keras.layers.Dense(10, activation="softmax"),
        ]
    )


class Bare:
    """The same training with nothing but Keras."""

    def __init__(self, samples: int) -> None:
        self.images, self.labels = synthetic_images(samples)
        self.model = mlp_layers()
        self.model.compile(keras.optimizers.Adam(RATE), "sparse_categorical_crossentropy", metrics=["accuracy"])

    def epoch_seconds(self) -> float:
        """Train one epoch."""
        started = time.perf_counter()
        self.model.fit(self.images, self.labels, batch_size=16, epochs=1, verbose=0)
        return time.perf_counter() - started


@dataclass
class Turns(keras.callbacks.Callback):
    """Between two epochs of the toolkit, one epoch of the bare training."""

    bare: Bare
    toolkit_s: list[float] = field(default_factory=list)
    bare_s: list[float] = field(default_factory=list)
    started: float | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._finish_epoch()
        self.bare_s.append(self.bare.epoch_seconds())
        self.started = time.perf_counter()

    def on_train_end(self, logs: Any = None) -> None:
        self._finish_epoch()

    def _finish_epoch(self) -> None:
        if self.started is not None:
            self.toolkit_s.append(time.perf_counter() - self.started)


def measure(pairs: int, samples: int, export_best: bool) -> None:
    """Train both in turn and print seconds and ratios."""
    params = BenchmarkScenario.default_trainer_params()
    params.gen.train.samples, params.gen.val.samples = samples, 0
    params.epochs = pairs + 1
    params.learning_rate.lr = RATE
    params.export_best = export_best
    params.progress_bar_mode = ProgressBarMode.PLAIN
    turns = Turns(Bare(samples))
    with tempfile.TemporaryDirectory() as directory:
        params.output_dir = str(Path(directory) / "run")
        BenchmarkScenario.create_trainer(params).train([turns])
    toolkit, bare = turns.toolkit_s[1:], turns.bare_s[1:]
    ratios = [a / b for a, b in zip(toolkit, bare, strict=True)]
    print(
        f"{BACKEND}, export_best {export_best}: toolkit {statistics.median(toolkit):.2f} s, bare fit "
        f"{statistics.median(bare):.2f} s per epoch; ratio median {statistics.median(ratios):.3f} "
        f"(min {min(ratios):.3f}, max {max(ratios):.3f}, {len(ratios)} pairs)"
    )


def main() -> None:
    """Parse the command line and measure with and without the export of the best model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=7, help="epochs of each that are compared")
    parser.add_argument("--samples", type=int, default=60_000, help="number of images")
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    for export_best in (True, False):
        measure(args.pairs, args.samples, export_best)


if __name__ == "__main__":
    main()
