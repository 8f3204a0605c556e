"""What a training shows in TensorBoard, and traces of its profiler, read back."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import keras
import numpy as np
import pytest
from keras import ops

from test.events.test_writer import accumulator, images, points
from test.trainer.line import (
    LineGraph,
    LineModel,
    LineModelParams,
    LineScenario,
    LineTrainerParams,
    line_params,
    train,
)
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.model.layerbase import TFAIPLayerBase
from tfaip.model.tensorboardwriter import TensorboardWriter
from tfaip.util.typing import TensorDict

Draw = Callable[[str, np.ndarray, int], Any]


def train_with(draw: Draw, params: LineTrainerParams) -> None:
    """Train a graph that shows the batch of its inputs."""

    class Shown(TFAIPLayerBase):
        def call(self, x: Any) -> Any:
            self.add_tensorboard(TensorboardWriter(draw, name="shown"), x)
            return x

    class Graph(LineGraph):
        def __init__(self, params: LineModelParams, **kwargs: Any) -> None:
            super().__init__(params, **kwargs)
            self.shown = Shown()

        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            return super().build_graph({"x": self.shown(inputs["x"])})

    scenario = LineScenario(params.scenario)
    scenario.model.root_graph_cls = lambda: Graph  # type: ignore[method-assign]
    LineScenario.trainer_cls()(params, scenario).train()


def test_a_function_that_returns_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="'shown' returned nothing: return an image, a number or a curve, instead of"):
        train_with(lambda name, value, step: None, line_params([1], [2], tmp_path))


class CurveModel(LineModel):
    """Takes x > 0 for the label, and 3/4 or 1/4 for its score."""

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.auc = keras.metrics.AUC(num_thresholds=3, curve="PR", name="auc")

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Any]:
        label = ops.cast(inputs["x"] > 0, "float32")
        return [self.auc(label, 0.25 + label / 2)]

    def _tensorboard(self) -> dict[str, Any]:
        return {"pr": PrecisionRecallCurve.of_metric(self.auc)}


class CurveEvaluator(EvaluatorBase[EvaluatorParams]):
    """The same of samples, one by one."""

    def __enter__(self) -> Self:
        self.labels: list[bool] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self.labels.append(bool(sample.inputs["x"][0] > 0))

    def result(self) -> dict[str, Any]:
        labels = np.array(self.labels)
        curve = PrecisionRecallCurve.of(labels, 0.25 + labels / 2, 3)
        return {"samples/pr": curve, "picture": np.full((1, 2, 1), 0.2), "report": ["not", "drawn"]}


@pytest.mark.slow
def test_values_of_training_and_validation_also_after_a_resume(tmp_path: Path) -> None:
    for epochs, restore in ((2, False), (3, True)):
        params = line_params([1], [2], tmp_path, epochs=epochs, lr=0.5, val_every_n=2, lav_every_n=9)
        params.histogram_every_n = 2
        LineScenario.create_trainer(params, restore=restore).train()
    assert points(tmp_path / "train", "loss") == [(1, 0.0), (2, -0.5), (3, -1.0)]
    assert points(tmp_path / "train", "lr") == [(1, 0.5), (2, 0.5), (3, 0.5)]
    assert points(tmp_path / "validation", "loss") == [(2, -2.0), (3, -3.0)]
    assert points(tmp_path / "lav_l0", "loss") == [(1, -1.0), (2, -2.0), (3, -3.0)]
    ((epoch, buckets),) = points(tmp_path / "train", "weights/line/kernel")
    assert (epoch, buckets[-1]) == (2, [-1.0, -1.0, 1.0])
    # Its other name is not shown.
    assert sorted(accumulator(tmp_path / "validation").Tags()["tensors"]) == ["distance", "loss"]


def test_layers_draw_images_of_the_first_validation_batch(tmp_path: Path) -> None:
    drawn: list[tuple[str, list[float], int]] = []

    def draw(name: str, value: np.ndarray, step: int) -> np.ndarray:
        drawn.append((name, value[:, 0].tolist(), step))
        return np.full((2, 3, 1), step / 5, np.float32)

    params = line_params([1, 1], [7, 8, 9], tmp_path, epochs=1)
    params.gen.setup.val.batch_size = 2
    train_with(draw, params)
    assert drawn == [("shown", [7.0, 8.0], 1)]
    assert images(tmp_path / "validation", "shown")[0].tolist() == [[51, 51, 51], [51, 51, 51]]


@pytest.mark.slow
def test_metrics_and_evaluators_draw_curves_and_images(tmp_path: Path) -> None:
    class Scenario(LineScenario):
        @classmethod
        def model_cls(cls) -> type[CurveModel]:
            return CurveModel

        @classmethod
        def evaluator_cls(cls) -> type[CurveEvaluator]:
            return CurveEvaluator

    Scenario.create_trainer(line_params([1, -1], [1, 1, -1], tmp_path, epochs=2, lav_every_n=2, lr=0.0)).train()
    # Scores 0.75 for positive x, 0.25 for others: true and false positives at the thresholds 0, 1/2, 1.
    for kind, steps, true, false in [
        ("train", [1, 2], [1, 1, 0], [1, 0, 0]),
        ("validation", [1, 2], [2, 2, 0], [1, 0, 0]),
        # LAV has the first and the last epoch, and the data of the validation.
        ("lav_l0", [1, 2], [2, 2, 0], [1, 0, 0]),
    ]:
        found = points(tmp_path / kind, "pr")
        assert [(step, counts[:2]) for step, counts in found] == [(step, [true, false]) for step in steps]
    assert points(tmp_path / "lav_l0", "samples/pr")[0][1][:2] == [[2, 2, 0], [1, 0, 0]]
    assert images(tmp_path / "lav_l0", "picture", step=2)[0].tolist() == [[51, 51]]
    # Neither is a value, and what cannot be drawn is nothing for TensorBoard.
    assert set(json.loads((tmp_path / "history.json").read_text())["1"]["values"]) == {
        *("loss", "loss/mean_epoch", "auc", "val_loss", "val_loss/mean_epoch", "val_auc"),
        *("lav_l0_loss", "lav_l0_loss/mean_epoch", "lav_l0_auc"),
    }
    assert "report" not in accumulator(tmp_path / "lav_l0").Tags()["tensors"]


def params_of(output_dir: Path | None, steps: list[int], batches: int = 8, **fields: Any) -> LineTrainerParams:
    """Executions of two batches."""
    fields = {"steps_per_execution": 2, "write_checkpoints": False, **fields}
    return line_params([1.0] * batches, output_dir=output_dir, profile=True, profile_steps=steps, **fields)


def traced(run: Path) -> list[int]:
    """The batches, counted from 0, that the executions in the only trace began with."""
    # The format is the same for both backends, and so is what reads it.
    from jax.profiler import ProfileData

    (trace,) = run.glob("train/plugins/profile/*/*.xplane.pb")
    events = [e for plane in ProfileData.from_file(str(trace)).planes for line in plane.lines for e in line.events]
    return [dict(event.stats)["step_num"] for event in events if event.name == "train"]


def test_the_batches_that_were_asked_for_are_in_the_trace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tfaip")
    train(params_of(tmp_path / "a", [3, 6]))
    assert traced(tmp_path / "a") == [2, 4]
    # Executions of batches 1-2, 3-4, 5; 1-2, ... are never cut: begun at 4 or later, and until 6 is trained. Epochs
    # are no border.
    train(params_of(tmp_path / "b", [4, 6], batches=5, epochs=2))
    assert traced(tmp_path / "b") == [4, 5]
    place = tmp_path / "b" / "train" / "plugins" / "profile"
    assert f"profiled batches 5 to 7: {place} (tensorboard-plugin-profile shows them)" in caplog.messages


def test_a_training_that_ends_within_ends_the_trace(tmp_path: Path) -> None:
    train(params_of(tmp_path / "run", [1, 100]))
    assert traced(tmp_path / "run") == [0, 2, 4, 6]


def test_a_trace_needs_a_place() -> None:
    with pytest.raises(UsageError, match="set --trainer.output_dir"):
        train(params_of(None, [3, 6]))
