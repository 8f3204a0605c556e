"""A scenario with one weight, `y = w * x`, whose training can be worked out by hand.

Batches of one sample, in the order of the data; SGD with rate 1; w starts at 0.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from tfaip.data.data import DataBase
from tfaip.data.databaseparams import DataBaseParams, DataGeneratorParams
from tfaip.data.pipeline.datagenerator import DataGenerator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import TensorSpec
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.params import ProgressBarMode, TrainerParams, TrainerPipelineParams
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.trainer import Trainer
from tfaip.util.typing import Tensor, TensorDict

TP = TypeVar("TP", bound=TrainerParams[Any, Any])


class PointsParams(DataGeneratorParams, cls=":Points"):
    """Samples with input `x` and target `y`."""

    x: list[float] = []
    y: list[float] = []
    named: bool = False


class Points(DataGenerator[PointsParams]):
    def __len__(self) -> int:
        return len(self.params.x)

    def __getitem__(self, index: int) -> Sample:
        y = self.params.y[index] if self.params.y else 0.0
        meta = f"s{index}" if self.params.named else None
        return Sample(inputs={"x": np.array([self.params.x[index]])}, targets={"y": np.array([y])}, meta=meta)

    def generate(self) -> Iterable[Sample]:
        return (self[index] for index in range(len(self)))


class LineDataParams(DataBaseParams, cls=":LineData"):
    pass


class LineData(DataBase[LineDataParams]):
    def _input_layer_specs(self) -> dict[str, Any]:
        return {"x": TensorSpec((1,), "float32")}

    def _target_layer_specs(self) -> dict[str, Any]:
        return {"y": TensorSpec((1,), "float32")}

    def element_length_fn(self, sample: Sample) -> int:
        return len(sample.inputs["x"])


class LineModelParams(ModelBaseParams, cls=":LineModel", graph_cls=":LineGraph"):
    """Loss "output": w * x, with the gradient x; "sum": its sum over the batch; "square": (w * x - y)^2."""

    loss: str = "output"
    start: float = 0.0
    monitor: list[str] = ["min", "loss/mean_epoch"]


class LineGraph(GraphBase[LineModelParams]):
    def __init__(self, params: LineModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        start = keras.initializers.Constant(params.start)
        self.line = keras.layers.Dense(1, use_bias=False, kernel_initializer=start)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.line(inputs["x"])}


class LineModel(ModelBase[LineModelParams]):
    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.distance = keras.metrics.MeanAbsoluteError(name="distance")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        if self.params.loss == "output":
            return {"loss": outputs["y"]}
        if self.params.loss == "sum":
            return {"loss": ops.sum(outputs["y"])}
        return {"loss": ops.square(outputs["y"] - targets["y"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.distance(targets["y"], outputs["y"])]

    def _best_logging_settings(self) -> tuple[str, str]:
        mode, name = self.params.monitor
        return mode, name


class LineScenarioParams(ScenarioBaseParams[LineDataParams, LineModelParams]):
    pass


class LinePipelineParams(TrainerPipelineParams[PointsParams, PointsParams]):
    pass


class LineTrainerParams(TrainerParams[LineScenarioParams, LinePipelineParams]):
    pass


class LineScenario(ScenarioBase[LineScenarioParams, LineTrainerParams]):
    pass


def line_params(
    x: list[float], val_x: list[float] | None = None, output_dir: Path | None = None, lr: float = 1.0, **fields: Any
) -> LineTrainerParams:
    """Params of a training on `x`; without `val_x` there is no validation. `fields` are those of TrainerParams."""
    params = LineScenario.default_trainer_params()
    params.gen.train, params.gen.val = PointsParams(x=x), PointsParams(x=val_x or [])
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 1
    return by_hand(params, output_dir, lr, **fields)


def by_hand(params: TP, output_dir: Path | None, lr: float = 1.0, **fields: Any) -> TP:
    """The params of a training that can be worked out: SGD, data in their order, and no model is written."""
    params.gen.setup.train.shuffle_buffer_size = 0
    params.optimizer, params.learning_rate = SGDOptimizer(), ConstantParams(lr=lr)
    params.epochs, params.random_seed = 1, 1
    params.progress_bar_mode = ProgressBarMode.PLAIN
    params.skip_model_load_test, params.export_best, params.export_final = True, False, False
    params.scenario.export_serve = False
    params.output_dir = None if output_dir is None else str(output_dir)
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def weight(trainer: Trainer[Any]) -> float:
    """The weight as it is now."""
    return float(ops.convert_to_numpy(trainer.scenario.graph.line.kernel.value)[0, 0])


class Weights(keras.callbacks.Callback):
    """Collects the weight behind every epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.values: list[float] = []

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        self.values.append(float(ops.convert_to_numpy(self.model.graph.line.kernel.value)[0, 0]))


def train(
    params: Any, *callbacks: keras.callbacks.Callback, scenario: Any = LineScenario, **resume: Any
) -> Trainer[Any]:
    """Train a new scenario; the trainer afterwards. `resume` are arguments of the trainer."""
    trainer = scenario.create_trainer(params, **resume)
    trainer.train(list(callbacks))
    return trainer


class CallbackOf(keras.callbacks.Callback):
    """A callback of functions by the name of the method; Keras calls those that the class has."""

    def __new__(cls, **functions: Callable[..., None]) -> CallbackOf:
        methods = {name: staticmethod(function) for name, function in functions.items()}
        return super().__new__(type(cls.__name__, (cls,), methods))

    def __init__(self, **functions: Callable[..., None]) -> None:
        super().__init__()


@dataclass
class StopAt(keras.callbacks.Callback):
    """Sends SIGTERM to this process after a batch of an epoch, or after the epoch."""

    epoch: int
    batch: int | None = None

    def __post_init__(self) -> None:
        super().__init__()
        self.running = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.running = epoch + 1

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (self.running, batch + 1) == (self.epoch, self.batch):
            signal.raise_signal(signal.SIGTERM)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if (epoch + 1, self.batch) == (self.epoch, None):
            signal.raise_signal(signal.SIGTERM)
