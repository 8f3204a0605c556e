"""Names of logged values: equal in all models, and those that are refused."""

from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import (
    LineDataParams,
    LineModel,
    LineModelParams,
    LineScenario,
    PointsParams,
    by_hand,
    line_params,
    train,
)
from tfaip.errors import UsageError
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.scenario import Scenario
from tfaip.trainer.history import read_history
from tfaip.trainer.stages.params import TrainStage
from tfaip.util.typing import Tensor, TensorDict


def scenario_of(model: type[ModelBase[Any]]) -> type[LineScenario]:
    return type("OwnScenario", (LineScenario,), {"model_cls": classmethod(lambda cls: model)})


class CountingModel(LineModel):
    """Counts the targets of 1 whose output is above 0.5, with a metric that has no name."""

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.hits = keras.metrics.TruePositives()

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.hits(targets["y"], outputs["y"])]


@pytest.mark.guard
@pytest.mark.backend
def test_a_metric_without_a_name_has_one_name_in_all_stages_and_trainings(tmp_path: Path) -> None:
    small = TrainStage(epochs=1, overrides={"model.start": "1.0"})
    for name in ("first", "second"):
        params = line_params([0.2, 0.8, 0.9], None, tmp_path / name, lr=0.0, stages={"small": small}, epochs=2)
        params.scenario.model.loss = "square"
        params.gen.train.y = [1.0, 1.0, 1.0]
        train(params, scenario=scenario_of(CountingModel))
        records = read_history(tmp_path / name / "history.json")
        for epoch in (1, 2):
            loss = pytest.approx((0.8**2 + 0.2**2 + 0.1**2) / 3)
            assert records[epoch].values == {"loss": loss, "loss/mean_epoch": loss, "true_positives": 2.0}


class OwnMetric(keras.metrics.MeanAbsoluteError):
    """Gives as many values as `of`, which is a number, a list or a dict."""

    of: Any = 1.0

    def result(self) -> Any:
        return keras.tree.map_structure(lambda factor: factor * super(OwnMetric, self).result(), self.of)


@pytest.mark.parametrize(
    ("name", "of", "message"),
    [
        *(
            (name, 1.0, f"the loss or metric '{name}' has a name of other values")
            for name in ("val_distance", "lav_l0_distance", "schedule/distance", "loss/mean_epoch", "lr")
        ),
        ("a b", 1.0, "the loss or metric 'a b' has a name of other values, or blanks"),
        ("distances", {"a": 1.0, "b": 2.0}, "the metric 'distances' gives several values, expected one: average them"),
        ("", None, r"no weight is trained \(the model has 1\): no layer"),
    ],
)
def test_what_cannot_be_logged_or_trained_is_refused(name: str, of: Any, message: str) -> None:
    trainer = LineScenario.create_trainer(line_params([1.0]))
    if name:
        trainer.scenario.model.distance = OwnMetric(name=name)
        trainer.scenario.model.distance.of = of
    else:
        trainer.scenario.graph.trainable = False
    with pytest.raises(UsageError, match=message):
        trainer.train()


class Measuring(keras.layers.Dense):
    """Updates a metric that is its own."""

    def __init__(self, units: int) -> None:
        super().__init__(units)
        self.size = keras.metrics.Mean(name="size")

    def call(self, inputs: Tensor) -> Tensor:
        outputs = super().call(inputs)
        self.size.update_state(outputs)
        return outputs


def test_metrics_of_layers_are_not_logged_silently(caplog: pytest.LogCaptureFixture) -> None:
    trainer = LineScenario.create_trainer(line_params([1.0]))
    trainer.scenario.graph.line = Measuring(1)
    trainer.train()
    assert "metrics of layers are not logged: size; call them in _metric of the model" in caplog.text


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
        metrics["distance"].update_state(y, outputs["y"])
        label, predicted = ops.cast(y > 0, "float32"), ops.cast(x > 2.5, "float32")
        return [
            metrics["mean_of_scalar"](ops.mean(x)),
            metrics["mean_of_vector"](x),
            metrics["weighted_scalar"](ops.mean(x), sample_weight=ops.shape(x)[0]),
            metrics["weighted_vector"](x, sample_weight=y),
            metrics["batches"](1.0),
            metrics["distance"].result(),  # in two steps
            *(metrics[name](label, predicted) for name in ("precision", "recall", "f1")),
        ]


class MetricsModelParams(LineModelParams, cls=":MetricsModel"):
    pass


class MetricsScenario(Scenario):
    data, model = LineDataParams, MetricsModelParams
    train, val = PointsParams(x=X, y=Y), PointsParams(x=X, y=Y)


EXECUTIONS = {"one": {"steps_per_execution": 1}, "sixteen": {"steps_per_execution": 16}, "eager": {"force_eager": True}}


@pytest.mark.backend
@pytest.mark.slow
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_every_metric_in_training_validation_and_lav(execution: str) -> None:
    params = by_hand(MetricsScenario.default_trainer_params(), None, 0.0, **EXECUTIONS[execution])
    params.epochs, params.lav_every_n, params.scenario.model.start = 2, 1, 2.0
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 2
    logs = MetricsScenario.create_trainer(params).train()
    for prefix in ("", "val_", "lav_l0_"):
        assert {name: logs[prefix + name] for name in EXPECTED} == pytest.approx(EXPECTED, rel=1e-6), prefix  # float32
