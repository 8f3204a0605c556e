"""A net with layers in layers and in lists, statistics, regularisers and dropout, on the data of the tiny scenario."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import numpy as np
from keras import ops

from test.support.tiny.model import TinyModel
from test.support.tiny.scenario import TinyScenario
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.trainer import Trainer
from tfaip.util.typing import TensorDict

LAYERS = ["encoder", "encoder/conv/0", "encoder/conv/1", "encoder/norm", "head"]
CONV = ["encoder/conv/0/bias", "encoder/conv/0/kernel", "encoder/conv/1/bias", "encoder/conv/1/kernel"]
STATISTICS = ["encoder/norm/moving_mean", "encoder/norm/moving_variance"]
ENCODER = [*CONV, "encoder/norm/beta", "encoder/norm/gamma", *STATISTICS, "encoder/scale"]
HEAD = ["head/bias", "head/kernel"]


class NetModelParams(ModelBaseParams, cls=TinyModel, graph_cls=":NetGraph"):
    units: int = 3
    dropout: float = 0.2
    classifier: bool = False


class Encoder(keras.layers.Layer):
    def __init__(self, units: int, dropout: float) -> None:
        super().__init__()
        self.conv = [keras.layers.Conv1D(units, 2, padding="same", kernel_regularizer="l2") for _ in range(2)]
        self.norm = keras.layers.BatchNormalization(momentum=0.5)
        self.dropout = keras.layers.Dropout(dropout)
        self.scale = self.add_weight(shape=(), initializer="ones", name="scale")

    def call(self, x: Any, training: bool | None = None) -> Any:
        for conv in self.conv:
            x = conv(x)
        return self.dropout(self.norm(x, training=training), training=training) * self.scale


class NetGraph(GraphBase[NetModelParams]):
    """Four numbers as a sequence -> one number."""

    def __init__(self, params: NetModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.encoder = Encoder(params.units, params.dropout)
        head = keras.layers.Dense(1)
        if params.classifier:
            self.classifier = head
        else:
            self.head = head

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        features = self.encoder(ops.expand_dims(inputs["x"], -1), training=training)
        head = self.classifier if self.params.classifier else self.head
        return {"y": head(ops.mean(features, axis=1))}


class NetScenario(TinyScenario):
    """Trained as the tiny scenario is."""

    model = NetModelParams
    defaults = {
        "trainer.epochs": 2,
        "trainer.random_seed": 7,
        "trainer.steps_per_execution": None,
        "trainer.progress_bar_mode": ProgressBarMode.PLAIN,
    }


def net_params(output_dir: Path | None = None, **fields: Any) -> Any:
    """Params of a training; `fields` are those of TrainerParams."""
    params = NetScenario.default_trainer_params()
    params.output_dir = None if output_dir is None else str(output_dir)
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def weights_of(trainer: Trainer[Any]) -> dict[str, np.ndarray]:
    """The weights as they are now, without the states of random generators."""
    arrays = variable_arrays(variables_by_path(trainer.scenario.graph))
    return {path: array for path, array in arrays.items() if "seed_generator" not in path}


def train(params: Any, restore: bool = False) -> tuple[dict[str, float], dict[str, np.ndarray]]:
    """Train a new scenario: the last logs, and the weights afterwards."""
    trainer = NetScenario.create_trainer(params, restore=restore)
    logs = trainer.train()
    return logs, weights_of(trainer)


def changed(ours: Mapping[str, np.ndarray], theirs: Mapping[str, np.ndarray]) -> list[str]:
    """Names of the arrays that are not equal bit for bit."""
    assert set(ours) == set(theirs)
    return sorted(name for name in ours if not np.array_equal(ours[name], theirs[name]))
