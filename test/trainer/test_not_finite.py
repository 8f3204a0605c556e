"""Losses, gradients and values that are not finite, in real trainings: what is kept of them, and what is said."""

from __future__ import annotations

import logging
import math
import re
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import (
    LineGraph,
    LineModel,
    LineModelParams,
    LineScenario,
    LineTrainerParams,
    StopAt,
    line_params,
    train,
)
from tfaip.device.device_config import Precision
from tfaip.errors import TfaipError
from tfaip.trainer.loop import TrainingDiverged
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.util.typing import Tensor, TensorDict

NAN, INF = float("nan"), float("inf")
ON_TENSORFLOW = keras.backend.backend() == "tensorflow"


class GapModel(LineModel):
    """The metric `score` is the output, but NaN between two numbers."""

    def __init__(self, params: GapModelParams) -> None:
        super().__init__(params)
        self.score = keras.metrics.Mean(name="score")

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        low, high = self.params.gap
        y = outputs["y"]
        return [*super()._metric(inputs, targets, outputs), self.score(y + 0 * ops.log((y - low) * (y - high)))]


class OddGraph(LineGraph):
    """A step before the weight that fails in its own way, as `kind` says."""

    def __init__(self, params: GapModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.first = keras.layers.Dense(1, kernel_initializer="ones", use_bias=False)
        if params.kind == "norm":
            self.norm = keras.layers.BatchNormalization(momentum=0.5)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        h = self.first(inputs["x"])
        kind = self.params.kind
        if kind == "norm":
            h = self.norm(h, training=training)
        elif kind == "log":
            h = ops.log(h)
        return {"y": self.line(h)}


class GapModelParams(LineModelParams):
    gap: list[float] = [99.0, 99.0]
    kind: str = ""

    @staticmethod
    def cls() -> type[GapModel]:
        return GapModel

    def graph_cls(self) -> type[LineGraph]:
        return OddGraph if self.kind else LineGraph


def falling(output_dir: Path, gap: tuple[float, float], **fields: Any) -> LineTrainerParams:
    """Every update lowers the weight by the rate, from 5 on; `val_score` is the weight, but NaN in the gap."""
    params = line_params([1.0], [1.0], output_dir, **{"epochs": 5, **fields})
    params.scenario.model = GapModelParams(start=5.0, gap=list(gap), monitor=["min", "score"])
    return params


def test_such_scores_stop_a_training_early_are_never_the_best_and_warned_of_once(tmp_path: Path, caplog) -> None:
    params = falling(tmp_path / "run", (1.5, 3.5), epochs=9, export_best=True)
    params.early_stopping.n_to_go = 3
    with caplog.at_level(logging.WARNING):
        trainer = train(params)
    assert (trainer.epoch, trainer.early_stopping.current) == (3, 4.0)
    told = [message.partition(";")[0] for message in caplog.messages if "score is nan" in message]
    assert told == ["epoch 2: val_score is nan", "epoch 3: score is nan"]
    assert (tmp_path / "run" / "train.log").read_text().count(" Best epoch   val_score 4.0000 in epoch 1\n") == 1


def odd(kind: str, x: list[float], named: bool = False, **fields: Any) -> LineTrainerParams:
    """A training in batches of two, whose samples have the `meta` s0, s1 ... if they are named."""
    params = line_params(x, **fields)
    params.scenario.model, params.gen.train.named = GapModelParams(kind=kind), named
    params.gen.setup.train.batch_size = 2
    return params


def kept(variable: Any) -> list[float]:
    return ops.convert_to_numpy(variable.value).tolist()


@pytest.mark.parametrize("steps_per_execution", [1, pytest.param(16, marks=pytest.mark.backend)])
def test_a_skipped_batch_leaves_statistics_and_logged_values(steps_per_execution: int) -> None:
    skip = {"optimizer": SGDOptimizer(skip_nonfinite=2), "steps_per_execution": steps_per_execution}
    bad = train(odd("norm", [1, 2, NAN, 7, INF, 7, 3, 4], **skip))
    good = train(odd("norm", [1, 2, 3, 4], **skip))
    norm = bad.scenario.graph.norm
    # Means 1.5 and 3.5 with half the weight each time, from 0; variances 0.25 twice, from 1.
    assert (kept(norm.moving_mean), kept(norm.moving_variance)) == ([2.125], [0.4375])
    assert bad.history.values(1) == good.history.values(1)
    assert math.isfinite(bad.history.values(1)["loss"])


def test_skipped_updates_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        train(line_params([1, NAN, 2, INF, 3], epochs=2, optimizer=SGDOptimizer(skip_nonfinite=1)))
        trainer = train(line_params([NAN, INF], optimizer=SGDOptimizer(skip_nonfinite=9)))
    told, text = (
        [m for m in caplog.messages if "skipped" in m],
        "updates skipped since loss or gradients were not finite",
    )
    assert told[:2] == [f"epoch {epoch}: {text}: {count}" for epoch, count in ((1, 2), (2, 2))]
    assert all(math.isnan(value) for value in trainer.history.values(1).values())  # of which nothing is left


@pytest.mark.backend
def test_with_half_precision_the_loss_shows_what_was_no_matter_of_its_scale() -> None:
    params = odd("norm", [1, 2, NAN, 7, 3, 4])
    params.device.precision = Precision.MIXED_FLOAT16
    trainer = train(params)
    assert math.isnan(trainer.history.values(1)["loss"])
    assert kept(trainer.scenario.graph.norm.moving_mean) == [2.125]


def diverged(params: LineTrainerParams) -> str:
    trainer = LineScenario.create_trainer(params)
    with pytest.raises(TrainingDiverged) as error:
        trainer.train()
    return str(error.value)


@pytest.mark.backend
def test_samples_that_are_not_finite_are_named() -> None:
    message = diverged(odd("", [1, 1, 1, NAN, 1, 1], True))
    assert message.startswith(
        "the loss or its gradients were not finite in batch 2 of epoch 1 (not finite in the data of 's3'); no weight"
    )
    assert message.endswith("; --trainer.debug_nonfinite True names the operation")
    assert "(not finite in the data of number 2)" in diverged(odd("", [1, 1, 1, INF]))


@pytest.mark.slow
def test_they_are_found_in_an_update_of_several_batches_and_after_a_resume(tmp_path: Path) -> None:
    params = odd("", [1.0] * 8 + [1, NAN] + [1.0] * 2, True, train_accum_steps=3)
    assert "in batches 4 to 6 of epoch 1 (not finite in the data of 's9')" in diverged(params)
    params = odd("", [1.0] * 7 + [NAN] + [1.0] * 4, True, output_dir=tmp_path / "run", steps_per_execution=1)
    with pytest.raises(TrainingInterrupted):
        LineScenario.create_trainer(params).train([StopAt(1, 2)])
    resumed = LineScenario.create_trainer(params, restore=True)
    with pytest.raises(TrainingDiverged, match=r"in batch 4 of epoch 1 \(not finite in the data of 's7'\)"):
        resumed.train()


@pytest.mark.backend
@pytest.mark.parametrize("eager", [False, True])
def test_the_backend_names_the_operation(eager: bool) -> None:
    message = diverged(odd("log", [1, 1, -1, 1, 1, 1], True, debug_nonfinite=True, force_eager=eager))
    operation = "(?i:log) gives NaN or infinity" if ON_TENSORFLOW else r"invalid value \(nan\) encountered in log"
    assert re.search(rf"in batch 2 of epoch 1 \(.*{operation}; its samples are 's2', 's3'\); no weight", message)
    assert "debug_nonfinite" not in message


@pytest.mark.backend
def test_the_backend_checks_the_validation_too() -> None:
    params = odd("log", [1, 1], val_x=[1, -1], debug_nonfinite=True)
    with pytest.raises(TfaipError, match="a value of the validation is not finite: .*(?i:log)"):
        train(params)
    # Only while it was asked for.
    train(odd("log", [1, 1], val_x=[1, -1]))
