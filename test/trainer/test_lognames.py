"""Names of logged values: equal in all models, and those that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.line import (
    LineGraph,
    LineModel,
    LineModelParams,
    LineScenario,
    LineScenarioParams,
    line_params,
    train,
)
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.trainer.history import read_history
from tfaip.trainer.stages.params import TrainStage
from tfaip.util.typing import Tensor, TensorDict


class WiderModelParams(LineModelParams, cls=":WiderModel"):
    """With `is_wide` there are one more output, one more loss and one more metric; they come first."""

    is_wide: bool = False

    def graph_cls(self) -> type[GraphBase[Any]]:
        return WiderGraph


def scenario_of(model: type[ModelBase[Any]]) -> type[LineScenario]:
    return type("OwnScenario", (LineScenario,), {"model_cls": classmethod(lambda cls: model)})


class WiderGraph(LineGraph):
    params: WiderModelParams

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        outputs = super().build_graph(inputs, training)
        return {"another": 2.0 * outputs["y"], **outputs} if self.params.is_wide else outputs


class WiderModel(LineModel):
    params: WiderModelParams

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.another = keras.metrics.MeanSquaredError(name="another_distance")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        losses = {"first": ops.square(outputs["y"] - targets["y"])}
        return {"another": ops.abs(outputs["another"]), **losses} if self.params.is_wide else losses

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        metrics = super()._metric(inputs, targets, outputs)
        return [self.another(targets["y"], outputs["another"]), *metrics] if self.params.is_wide else metrics


@pytest.mark.slow
def test_what_is_added_renames_nothing(tmp_path: Path) -> None:
    records = []
    for is_wide in (False, True):
        params = line_params([1.0, 2.0], [1.0], epochs=2, loss_weights={"another": 0.0} if is_wide else {})
        params.scenario.model = WiderModelParams(start=1.0, is_wide=is_wide)
        records.append(train(params).history.values(2))
    before, after = records
    names = {"distance", "first", "loss", "loss/mean_epoch"}
    assert before.keys() == names | {f"val_{name}" for name in names}
    # The other loss counts nothing in the sum, so that the values are the same, too.
    assert {name: after[name] for name in before} == before
    added = {"another", "another_distance"}
    assert after.keys() - before.keys() == added | {f"val_{name}" for name in added}


class UnnamedModel(LineModel):
    """Has metrics without a name, of the constructor and of the network; and one whose name looks like theirs."""

    loss = "mse"
    metrics = (keras.metrics.AUC,)

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.distances = [keras.metrics.AUC(), keras.metrics.AUC(name="auc_5"), keras.metrics.AUC()]

    def build_model(self) -> keras.layers.Layer:
        self.later = keras.metrics.AUC()
        return keras.layers.Dense(1, name="y")


def test_metrics_without_a_name_are_counted_for_each_model() -> None:
    outside = keras.metrics.AUC()
    scenarios = [scenario_of(UnnamedModel)(LineScenarioParams()) for _ in range(2)]
    for scenario in scenarios:
        assert scenario.graph
    for scenario in scenarios:  # side by side, as for a vote
        scenario.model.make_metrics({"y": keras.Input((1,))}, {"y": keras.Input((1,))})
        names = [metric.name for metric in scenario.model.metric_objects()]
        assert names == ["distance", "auc", "auc_5", "auc_1", "auc_2", "auc_3"]
    assert keras.metrics.AUC().name != outside.name


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
        ("a\nb", 1.0, r"the loss or metric 'a\\nb' breaks the lines of results"),
        ("distances", np.array([1.0, 2.0]), "the metric 'distances' gives several values, expected one: average them"),
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
