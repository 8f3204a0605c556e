"""What metrics of every kind log in training, validation and LAV, however many batches an execution has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.line import LineDataParams, LineModel, LineModelParams, LinePipelineParams, line_params
from tfaip.model.modelbase import ModelBase
from tfaip.params import pai_dataclass
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.params import TrainerParams
from tfaip.util.typing import Tensor, TensorDict

pytestmark = pytest.mark.backend

X = [1.0, 3.0, 2.0, 6.0, 5.0]  # in batches of two: [1, 3], [2, 6], [5]
Y = [1.0, 0.0, 2.0, 1.0, 1.0]
EXPECTED = {
    "mean_of_scalar": 11 / 3,  # the means of the batches are 2, 4, 5
    "mean_of_vector": 17 / 5,
    "weighted_scalar": 17 / 5,  # by the size of the batch
    "weighted_vector": 16 / 5,  # (1 * 1 + 3 * 0 + 2 * 2 + 6 * 1 + 5 * 1) / (1 + 0 + 2 + 1 + 1)
    "batches": 3.0,
    "distance": 29 / 5,  # |2x - y|: 1, 6, 2, 11, 9
    # True are the samples 1, 3, 4, 5, predicted (x > 2.5) 2, 4, 5: two are right, one is wrong, two are missing.
    "precision": 2 / 3,
    "recall": 2 / 4,
    "f1": 4 / 7,
}


class Metrics:
    """Metrics of every kind."""

    def __init__(self) -> None:
        self.metrics: dict[str, Any] = {
            "mean_of_scalar": keras.metrics.Mean(name="mean_of_scalar"),
            "mean_of_vector": keras.metrics.Mean(name="mean_of_vector"),
            "weighted_scalar": keras.metrics.Mean(name="weighted_scalar"),
            "weighted_vector": keras.metrics.Mean(name="weighted_vector"),
            "batches": keras.metrics.Sum(name="batches"),
            "distance": keras.metrics.MeanAbsoluteError(name="distance"),
            "precision": keras.metrics.Precision(name="precision"),
            "recall": keras.metrics.Recall(name="recall"),
            "f1": keras.metrics.F1Score(average="micro", threshold=0.5, name="f1"),
        }

    def call(self, x: Tensor, y: Tensor, output: Tensor) -> list[Tensor]:
        """Update all of them with a batch."""
        metrics = self.metrics
        label, predicted = ops.cast(y > 0, "float32"), ops.cast(x > 2.5, "float32")
        return [
            metrics["mean_of_scalar"](ops.mean(x)),
            metrics["mean_of_vector"](x),
            metrics["weighted_scalar"](ops.mean(x), sample_weight=ops.shape(x)[0]),
            metrics["weighted_vector"](x, sample_weight=y),
            metrics["batches"](1.0),
            metrics["distance"](y, output),
            *(metrics[name](label, predicted) for name in ("precision", "recall", "f1")),
        ]


@pai_dataclass
@dataclass
class MetricsModelParams(LineModelParams):
    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return MetricsModel


class MetricsModel(LineModel):
    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.all = Metrics()
        self.found = self.all.metrics

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return self.all.call(inputs["x"], targets["y"], outputs["y"])


class MetricsScenarioParams(ScenarioBaseParams[LineDataParams, MetricsModelParams]):
    pass


class MetricsTrainerParams(TrainerParams[MetricsScenarioParams, LinePipelineParams]):
    pass


class MetricsScenario(ScenarioBase[MetricsScenarioParams, MetricsTrainerParams]):
    pass


class PlainModel(keras.Model):
    """The same metrics without the toolkit."""

    def __init__(self) -> None:
        super().__init__()
        self.all = Metrics()
        self.found = self.all.metrics
        self.line = keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(2.0))

    def call(self, x: Tensor) -> Tensor:
        return self.line(x)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Tensor]:
        self.all.call(x, y, y_pred)
        return self.get_metrics_result()


def with_prefix(logs: dict[str, float], prefix: str) -> dict[str, float]:
    """The values of the metrics among what was logged with a prefix."""
    return {name: logs[prefix + name] for name in EXPECTED}


EXECUTIONS = {"one": {"steps_per_execution": 1}, "sixteen": {"steps_per_execution": 16}, "eager": {"force_eager": True}}


@pytest.mark.slow
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_every_metric_in_training_validation_and_lav(execution: str) -> None:
    line = line_params(X, X, lr=0.0, epochs=2, lav_every_n=1, **EXECUTIONS[execution])
    params = MetricsScenario.default_trainer_params()
    for name in vars(line):
        if name != "scenario":
            setattr(params, name, getattr(line, name))
    params.scenario.model.start, params.scenario.export_serve = 2.0, False
    params.gen.train.y, params.gen.val.y = Y, Y
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 2
    logs = MetricsScenario.create_trainer(params).train()
    for prefix in ("", "val_", "lav_l0_"):
        assert with_prefix(logs, prefix) == pytest.approx(EXPECTED, rel=1e-6), prefix  # float32


def test_keras_alone_gives_the_same() -> None:
    model = PlainModel()
    model.compile(loss="mse")
    x, y = (np.array(values, np.float32)[:, None] for values in (X, Y))
    logs = model.evaluate(x, y, batch_size=2, verbose=0, return_dict=True)
    assert with_prefix(logs, "") == pytest.approx(EXPECTED, rel=1e-6)
