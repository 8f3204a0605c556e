"""Losses, gradients and values that are not finite, in real trainings: what is kept of them, and what is said."""

from __future__ import annotations

import json
import logging
import math
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
    LineTrainerParams,
    Weights,
    line_params,
    train,
    weight,
)
from test.trainer.test_resume_changes import StopAfter
from tfaip.data.pipeline.batching import Batch
from tfaip.device.device_config import Precision
from tfaip.model.nonfinite import first_not_finite
from tfaip.trainer.nonfinite import TrainingDiverged
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.scheduler import NewbobAbsParams, ReduceOnPlateauParams
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.util.typing import Tensor, TensorDict

NAN, INF = float("nan"), float("inf")


class GapModel(LineModel):
    """The metric `score` is the output, but NaN between two numbers."""

    def __init__(self, params: GapModelParams) -> None:
        super().__init__(params)
        self.score = keras.metrics.Mean(name="score")

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        low, high = self.params.gap
        y = outputs["y"]
        return [*super()._metric(inputs, targets, outputs), self.score(y + 0 * ops.log((y - low) * (y - high)))]


class Peak(keras.layers.Layer):
    """Remembers the largest input; the second number of its state is always infinite."""

    def build(self, shape: Any) -> None:
        start = keras.initializers.Constant(-INF)
        self.peak = self.add_weight(name="peak", shape=(2,), initializer=start, trainable=False)

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        if training:
            self.peak.assign(ops.maximum(self.peak, ops.stack([ops.max(x), -INF])))
        return x


class OddGraph(LineGraph):
    """A step before the weight that fails in its own way, as `kind` says."""

    def __init__(self, params: GapModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.first = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
        if params.kind == "norm":
            self.norm = keras.layers.BatchNormalization(momentum=0.5)
        elif params.kind == "peak":
            self.peak = Peak()
        elif params.kind == "mask":
            self.mask = keras.layers.Lambda(lambda x: ops.concatenate([x, ops.full_like(x, -INF)], axis=1))
        elif params.kind == "recurrent":
            self.recurrent = keras.layers.SimpleRNN(1)
        self.roots = keras.layers.Lambda(ops.sqrt)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        h = self.first(inputs["x"])
        kind = self.params.kind
        if kind == "norm":
            h = self.norm(h, training=training)
        elif kind == "peak":
            h = self.peak(h, training=training)
        elif kind == "log":
            h = ops.log(h)
        elif kind == "mask":
            h = self.roots(h * ops.softmax(self.mask(h))[:, :1])
        elif kind == "roots":
            h = self.roots(h)
        elif kind == "gradient":
            h = h + ops.sqrt(h)
        elif kind == "large":
            h = h * 1e25
        elif kind == "recurrent":
            h = self.recurrent(ops.expand_dims(self.roots(h), 1))
        return {"y": self.line(h)}


class LoggedModel(GapModel):
    """The loss `logged`, of weight 0, is always NaN; the loss `roots` is NaN above 4."""

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        y = outputs["y"]
        return {"logged": ops.sqrt(-1 - ops.abs(y)), "roots": ops.sqrt(4 - y)}

    def _loss_weights(self) -> dict[str, float]:
        return {"logged": 0.0}


class GapModelParams(LineModelParams):
    gap: list[float] = [99.0, 99.0]
    kind: str = ""

    @staticmethod
    def cls() -> type[GapModel]:
        return GapModel

    def graph_cls(self) -> type[LineGraph]:
        return OddGraph if self.kind else LineGraph


class LoggedModelParams(GapModelParams):
    @staticmethod
    def cls() -> type[GapModel]:
        return LoggedModel


def falling(output_dir: Path | None, gap: tuple[float, float], control: Any = None, **fields: Any) -> LineTrainerParams:
    """Every update lowers the weight by the rate, from 5 on; `val_score` is the weight, but NaN in the gap."""
    if control is not None:
        fields["learning_rate"] = control
    params = line_params([1.0], [1.0], output_dir, **{"epochs": 5, **fields})
    params.scenario.model = GapModelParams(start=5.0, gap=list(gap), monitor=["min", "score"])
    return params


def records_of(run: Path) -> dict[str, Any]:
    return json.loads((run / "history.json").read_text())


def newbob() -> NewbobAbsParams:
    """Improvements by less than 0.6 let the rate decay."""
    return NewbobAbsParams(lr=1.0, threshold=-0.6, monitor="val_score")


def test_a_score_that_is_not_finite_lets_newbob_decay_the_rate(tmp_path: Path) -> None:
    weights = Weights()
    train(falling(tmp_path / "run", (2.6, 3.5), newbob()), weights)
    # NaN after epoch 2 is worse than 4, 2.5 better than NaN; from 2.5 to 2 is less than 0.6.
    assert weights.values == [4.0, 3.0, 2.5, 2.0, 1.75]
    records = records_of(tmp_path / "run")
    assert [record["lr"] for record in records.values()] == [1.0, 1.0, 0.5, 0.5, 0.25]
    np.testing.assert_array_equal([r["values"]["val_score"] for r in records.values()], [4.0, NAN, 2.5, 2.0, 1.75])
    assert [record["values"]["val_loss"] for record in records.values()] == weights.values


@pytest.mark.slow
def test_a_resume_reads_such_a_score_as_the_whole_run_does(tmp_path: Path) -> None:
    train(falling(tmp_path / "run", (2.6, 3.5), newbob(), epochs=2))
    resumed = train(falling(tmp_path / "run", (2.6, 3.5), newbob()), restore=True)
    assert weight(resumed) == 1.75


def test_a_plateau_of_such_scores_lets_the_rate_decay() -> None:
    weights = Weights()
    control = ReduceOnPlateauParams(lr=1.0, patience_epochs=2, monitor="val_score")
    trainer = train(falling(None, (1.6, 3.5), control), weights)
    assert weights.values == [4.0, 3.0, 2.0, 1.5, 1.0]
    assert trainer.history.values(5)["val_score"] == 1.0


def test_such_scores_stop_a_training_early_and_are_never_the_best(tmp_path: Path) -> None:
    params = falling(tmp_path / "run", (1.5, 3.5), epochs=9, export_best=True)
    params.early_stopping.n_to_go = 3
    trainer = train(params)
    assert trainer.epoch == 3
    assert trainer.early_stopping.current == 4.0
    best = [
        row.split(":")[-1] for row in (tmp_path / "run" / "train.log").read_text().splitlines() if "Best epoch" in row
    ]
    assert best == [" Best epoch   val_score 4.0000 in epoch 1"]


def test_each_value_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        train(falling(None, (1.5, 3.5), epochs=4))
    told = [record.getMessage() for record in caplog.records if "score is nan" in record.getMessage()]
    assert [text.partition(";")[0] for text in told] == ["epoch 2: val_score is nan", "epoch 3: score is nan"]
    assert told[0].endswith("--trainer.debug_nonfinite True names the batch and the layer")


def odd(kind: str, x: list[float], **fields: Any) -> LineTrainerParams:
    params = line_params(x, **fields)
    params.scenario.model = GapModelParams(kind=kind)
    params.gen.setup.train.batch_size = 2
    return params


@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(16, marks=pytest.mark.backend)])
def test_a_skipped_batch_leaves_statistics_and_logged_values(steps_per_execution: int) -> None:
    skip = {"optimizer": SGDOptimizer(skip_nonfinite=2), "steps_per_execution": steps_per_execution}
    bad = train(odd("norm", [1, 2, NAN, 7, INF, 7, 3, 4], **skip))
    good = train(odd("norm", [1, 2, 3, 4], **skip))
    mean, variance = (
        float(ops.convert_to_numpy(v.value)[0])
        for v in (bad.scenario.graph.norm.moving_mean, bad.scenario.graph.norm.moving_variance)
    )
    # Means 1.5 and 3.5 with half the weight each time, from 0; variances 0.25 twice, from 1.
    assert (mean, variance) == (2.125, 0.4375)
    assert bad.history.values(1) == good.history.values(1)
    assert math.isfinite(bad.history.values(1)["loss"])


def test_skipped_updates_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        train(line_params([1, NAN, 2, INF, 3], epochs=2, optimizer=SGDOptimizer(skip_nonfinite=1)))
        train(line_params([1, NAN, 2], optimizer=SGDOptimizer(skip_nonfinite=1)))
    told = [record.getMessage() for record in caplog.records if "skipped" in record.getMessage()]
    assert told == [
        "epoch 1: 2 updates were skipped: their loss or gradients were not finite",
        "epoch 2: 2 updates were skipped: their loss or gradients were not finite",
        "epoch 1: 1 update was skipped: its loss or gradients were not finite",
    ]


@pytest.mark.backend
def test_with_half_precision_the_loss_shows_what_was_no_matter_of_its_scale() -> None:
    params = odd("norm", [1, 2, NAN, 7, 3, 4])
    params.device.precision = Precision.MIXED_FLOAT16
    trainer = train(params)
    assert math.isnan(trainer.history.values(1)["loss"])
    assert float(ops.convert_to_numpy(trainer.scenario.graph.norm.moving_mean.value)[0]) == 2.125


def test_the_state_of_layers_is_no_cause_in_a_training() -> None:
    message = diverged(odd("norm", [1, 2, NAN, 7], train_accum_steps=2, debug_nonfinite=True))
    assert "in batches 1 to 2 of epoch 1 (batch 2, input x: 1 of 2 values is nan, in sample 1)" in message


def test_what_is_infinite_at_first_may_become_finite() -> None:
    trainer = train(odd("peak", [1, 2, NAN, 7, 3, 4], optimizer=SGDOptimizer(skip_nonfinite=1)))
    assert ops.convert_to_numpy(trainer.scenario.graph.peak.peak.value).tolist() == [4.0, -INF]


def test_an_epoch_of_skipped_batches_has_no_values() -> None:
    trainer = train(line_params([NAN, INF], optimizer=SGDOptimizer(skip_nonfinite=9)))
    assert all(math.isnan(value) for value in trainer.history.values(1).values())


def diverged(params: LineTrainerParams) -> str:
    trainer = LineScenario.create_trainer(params)
    with pytest.raises(TrainingDiverged) as error:
        trainer.train()
    return str(error.value)


@pytest.mark.parametrize(
    ("kind", "x", "batch", "cause"),
    [
        ("", [1, 1, 1, NAN], 2, "input x: 1 of 2 values is nan, in sample 2"),
        ("log", [1, 1, -1, -2, 1, 1], 2, "layer line: 2 of 2 values of its input are nan, in samples 1, 2"),
        ("roots", [1, 1, 1, 1, -1, 1], 3, "layer roots: 1 of 2 values of its output is nan, in sample 1"),
        ("log", [1, 1, 1, 0], 2, "layer line: 1 of 2 values of its input is inf, in sample 2; the first nan: "),
        (
            "mask",
            [1, -1, 1, 1],
            1,
            "layer mask: 2 of 4 values of its output are inf, in samples 1, 2; the first nan: layer roots: 1 of 2 ",
        ),
        ("recurrent", [1, -1, 1, 1], 1, "layer roots: 1 of 2 values of its output is nan, in sample 2"),
        ("gradient", [1, 1, 1, 0], 2, "gradient of first/kernel: 1 of 1 values is nan"),
        ("large", [1, 1, 1, 1], 1, "the norm of the gradients is inf; gradient of line/kernel: up to 1e+25"),
    ],
)
def test_the_first_value_that_is_not_finite_is_named(kind: str, x: list[float], batch: int, cause: str) -> None:
    message = diverged(odd(kind, x, debug_nonfinite=True))
    assert message.startswith(f"the loss or its gradients were not finite in batch {batch} of epoch 1 ({cause}")
    assert "no weight has changed" in message
    assert "debug_nonfinite" not in message


def test_a_loss_that_is_only_logged_is_no_cause() -> None:
    params = line_params([1, 2, 9], lr=0.0, debug_nonfinite=True)
    params.scenario.model = LoggedModelParams(start=1.0)
    assert "in batch 3 of epoch 1 (loss roots: 1 of 1 values is nan, in sample 1)" in diverged(params)


def test_it_is_found_among_the_batches_of_an_update() -> None:
    message = diverged(odd("roots", [1] * 8 + [1, -1] + [1] * 2, train_accum_steps=3, debug_nonfinite=True))
    assert "in batches 4 to 6 of epoch 1 (batch 5, layer roots: 1 of 2 values of its output is nan, in sam" in message


def test_it_is_found_after_a_resume_within_the_epoch(tmp_path: Path) -> None:
    x = [1.0] * 6 + [1.0, -1.0] + [1.0] * 4
    params = odd("roots", x, output_dir=tmp_path / "run", steps_per_execution=1, debug_nonfinite=True)
    with pytest.raises(TrainingInterrupted):
        LineScenario.create_trainer(params).train([StopAfter(2)])
    resumed = LineScenario.create_trainer(params, restore=True)
    with pytest.raises(TrainingDiverged, match=r"in batch 4 of epoch 1 \(layer roots: 1 of 2 values .* in sample 2\)"):
        resumed.train()


def test_the_batch_of_a_validation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    params = odd("log", [1, 1], val_x=[1, 1, 1, -1, 1], debug_nonfinite=True)
    with caplog.at_level(logging.WARNING):
        train(params)
    (told,) = [record.getMessage() for record in caplog.records if "epoch 1:" in record.getMessage()]
    cause = "validation, batch 4, layer line: 1 of 1 values of its input is nan, in sample 1"
    assert told.startswith(f"epoch 1: val_distance is nan, val_loss is nan, val_score is nan ({cause}); an epoch whose")


class Search(keras.callbacks.Callback):
    """Looks at a batch behind an epoch."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float] | None = None) -> None:
        graph = self.model.graph
        layers = [graph, graph.norm, graph.line]
        variables = [*self.model.variables, *self.model.metrics_variables]
        before = [ops.convert_to_numpy(variable.value).tolist() for variable in variables]
        calls = ["call" in vars(layer) for layer in layers]
        batch = Batch({"x": np.array([[5], [6]], "float32")}, {"y": np.zeros((2, 1), "float32")}, ["a.png", "b.png"])
        assert first_not_finite(self.model, batch, training=True) is None
        assert [ops.convert_to_numpy(variable.value).tolist() for variable in variables] == before
        assert ["call" in vars(layer) for layer in layers] == calls
        batch.inputs["x"][1] = np.inf
        assert (
            first_not_finite(self.model, batch, training=True) == "input x: 1 of 2 values is inf, in sample 2 ('b.png')"
        )


def test_a_search_changes_nothing() -> None:
    train(odd("norm", [1, 2]), Search())
