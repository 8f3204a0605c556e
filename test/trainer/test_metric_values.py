"""What metrics of every kind log in training, validation and LAV, however many batches an execution has."""

from __future__ import annotations

from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import LineDataParams, LineModel, LineModelParams, PointsParams, by_hand
from tfaip.scenario.scenario import Scenario
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


class MetricsModel(LineModel):
    """Metrics of every kind."""

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        means = ("mean_of_scalar", "mean_of_vector", "weighted_scalar", "weighted_vector")
        self.all: dict[str, Any] = {
            **{name: keras.metrics.Mean(name=name) for name in means},
            "batches": keras.metrics.Sum(name="batches"),
            "distance": keras.metrics.MeanAbsoluteError(name="distance"),
            "precision": keras.metrics.Precision(name="precision"),
            "recall": keras.metrics.Recall(name="recall"),
            "f1": keras.metrics.F1Score(average="micro", threshold=0.5, name="f1"),
        }

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        metrics, x, y = self.all, inputs["x"], targets["y"]
        label, predicted = ops.cast(y > 0, "float32"), ops.cast(x > 2.5, "float32")
        return [
            metrics["mean_of_scalar"](ops.mean(x)),
            metrics["mean_of_vector"](x),
            metrics["weighted_scalar"](ops.mean(x), sample_weight=ops.shape(x)[0]),
            metrics["weighted_vector"](x, sample_weight=y),
            metrics["batches"](1.0),
            metrics["distance"](y, outputs["y"]),
            *(metrics[name](label, predicted) for name in ("precision", "recall", "f1")),
        ]


class MetricsModelParams(LineModelParams, cls=":MetricsModel"):
    pass


class MetricsScenario(Scenario):
    data, model = LineDataParams, MetricsModelParams
    train, val = PointsParams(x=X, y=Y), PointsParams(x=X, y=Y)


EXECUTIONS = {"one": {"steps_per_execution": 1}, "sixteen": {"steps_per_execution": 16}, "eager": {"force_eager": True}}


@pytest.mark.slow
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_every_metric_in_training_validation_and_lav(execution: str) -> None:
    params = by_hand(MetricsScenario.default_trainer_params(), None, 0.0, **EXECUTIONS[execution])
    params.epochs, params.lav_every_n, params.scenario.model.start = 2, 1, 2.0
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 2
    logs = MetricsScenario.create_trainer(params).train()
    for prefix in ("", "val_", "lav_l0_"):
        assert {name: logs[prefix + name] for name in EXPECTED} == pytest.approx(EXPECTED, rel=1e-6), prefix  # float32
