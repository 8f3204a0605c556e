"""Whole trainings with worked-out numbers, also of several calls of `Trainer.fit`."""

import contextlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.model.brought import BroughtScenario, brought_params
from test.trainer.line import (
    CallbackOf,
    LineGraph,
    LineScenario,
    LineTrainerParams,
    PointsParams,
    Weights,
    line_params,
    train,
    weight,
)
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import UsageError
from tfaip.predict.params import PredictorParams
from tfaip.trainer.loop import TrainingDiverged
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.trainer import Trainer
from tfaip.trainer.training import StopReason
from tfaip.util.typing import Logs, TensorDict


def test_eagerly_the_python_code_of_the_graph_runs_in_every_batch() -> None:
    runs: list[bool | None] = []

    class Graph(LineGraph):
        def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
            runs.append(training)
            return super().build_graph(inputs)

    counts = []
    for epochs in (1, 3):
        runs.clear()
        params = line_params([1, 2, 3, 4, 5], [1, 2], epochs=epochs, lav_every_n=1, force_eager=True)
        scenario = LineScenario(params.scenario)
        scenario.model.root_graph_cls = lambda: Graph  # type: ignore[method-assign]
        LineScenario.trainer_cls()(params, scenario).train()
        assert float(ops.convert_to_numpy(scenario.graph.line.kernel.value)[0, 0]) == -15.0 * epochs
        counts.append((runs.count(True), runs.count(False)))
    # Two epochs more: five batches each, two of the validation and two of LAV.
    assert (counts[1][0] - counts[0][0], counts[1][1] - counts[0][1]) == (2 * 5, 2 * (2 + 2))


@pytest.mark.backend
def test_logged_values_are_those_of_numpy(tmp_path: Path) -> None:
    x, val_x = [1.0, 2.0, 4.0], [3.0, 5.0, 1.0, 2.0, 7.0]  # the last batch of the validation is smaller
    params = line_params(x, val_x, tmp_path / "run", lr=0.01)
    params.scenario.model.loss = "square"
    params.scenario.model.start = 2.0
    params.gen.train.y, params.gen.val.y = [1.0, 1.0, 1.0], [2.0, 2.0, 2.0, 2.0, 2.0]
    params.gen.setup.val.batch_size = 2
    logs = LineScenario.create_trainer(params).train()

    w, losses, distances = 2.0, [], []
    for value in x:
        losses.append((w * value - 1) ** 2)
        distances.append(abs(w * value - 1))
        w -= 0.01 * 2 * (w * value - 1) * value
    errors = w * np.array(val_x) - 2
    expected = {
        "loss": np.mean(losses),
        "loss/mean_epoch": np.mean(losses),
        "distance": np.mean(distances),
        "val_loss": np.mean(errors**2),
        "val_loss/mean_epoch": np.mean(errors**2),
        "val_distance": np.mean(np.abs(errors)),
    }
    assert logs == pytest.approx(expected, rel=1e-5)
    stored = json.loads((tmp_path / "run" / "history.json").read_text())
    assert stored["1"]["values"] == logs


@pytest.mark.backend
def test_sgd_in_epochs_that_are_no_multiple_of_an_execution() -> None:
    # Keras runs assigns of a partial execution once too often if it does not know the number of steps.
    weights = Weights()
    train(line_params([1.0] * 19, epochs=3, steps_per_execution=16), weights)
    assert weights.values == [-19.0, -38.0, -57.0]  # loss w * x: the gradient is x, the rate 1
    assert int(weights.model.optimizer.iterations) == 57
    # Epochs are windows on the stream, 1 2 | 3 1 | 2 3.
    weights = Weights()
    train(line_params([1, 2, 3], samples_per_epoch=2, epochs=3), weights)
    assert weights.values == [-3.0, -7.0, -12.0]


def test_without_output_dir_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    params = line_params([1], [1], epochs=2, export_best=True, export_final=True, skip_model_load_test=False)
    trainer = train(params)
    assert weight(trainer) == -2.0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_resume_of_a_finished_run_returns_its_last_values(tmp_path: Path) -> None:
    made = line_params([1], [1], tmp_path / "run", epochs=2)
    first = LineScenario.create_trainer(made).train()
    weights = Weights()
    trainer = LineScenario.create_trainer(made, restore=True)
    assert trainer.train([weights]) == first
    assert (weights.values, weight(trainer)) == ([], -2.0)
    # It goes on from its own checkpoint. The length of the training is also a field of the rate, which must follow.
    trainer.params.epochs = 4
    trainer.train([weights])
    assert (weights.values, trainer.params.learning_rate.epochs) == ([-3.0, -4.0], 4)


def test_resume_without_a_directory_or_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to resume without an output directory: set --trainer.output_dir"):
        train(line_params([1]), restore=True)
    made = line_params([1], output_dir=tmp_path / "run")
    with pytest.raises(UsageError, match="resumes a run and has no model yet: call train"):
        _ = LineScenario.create_trainer(made, restore=True).model


@pytest.mark.parametrize(
    ("flag", "value", "message"),
    [
        ("train.x", [], "an epoch has 0 samples: expected at least 1"),
        ("model.monitor", ["min", "accuracy"], "follows 'accuracy' .* is not log"),
        ("train.batch_drop_remainder", True, "1 samples give no batch of batch_size 2 with batch_drop_remainder"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_written(
    flag: str, value: Any, message: str, tmp_path: Path
) -> None:
    params = line_params([1], output_dir=tmp_path / "run")
    params.set_flags({"train.batch_size": 2, flag: value})
    with pytest.raises(UsageError, match=message):
        train(params)
    assert not (tmp_path / "run").exists()


X = [{"x": np.array([value], "float32")} for value in (0.5, 3.0)]


@pytest.mark.backend
@pytest.mark.parametrize(("rate", "final"), [(0.0, -4.0), (0.5, -3.0625)])
def test_after_a_training(rate: float, final: float, tmp_path: Path) -> None:
    # w is -4 after four updates of -1; averages: -0.5, -1.25, -2.125, -3.0625.
    params = line_params([1.0, 1.0], [2.0], tmp_path / "run", epochs=2, calc_ema=rate, export_best=True)
    trainer = train(params)
    last = {name.removeprefix("val_"): v for name, v in trainer.history.values(2).items() if name.startswith("val_")}
    assert trainer.evaluate() == last == {"loss": 2 * final, "loss/mean_epoch": 2 * final, "distance": -2 * final}
    samples = [Sample(inputs={"x": np.array([x])}, targets={"y": np.array([0.0])}) for x in (1.0, 4.0)]
    assert trainer.evaluate(samples)["loss"] == trainer.evaluate(PointsParams(x=[1.0, 4.0]))["loss"] == 2.5 * final
    best = LineScenario.create_predictor(str(tmp_path / "run" / "best"), PredictorParams(silent=True))
    for found in (trainer.predict(X), list(best.predict_raw(X)), trainer.predict(PointsParams(x=[0.5, 3.0]))):
        assert [sample.outputs["y"].tolist() for sample in found] == [[0.5 * final], [3 * final]]
    assert weight(trainer) == -4.0
    assert trainer.model is trainer.scenario.graph
    assert (trainer.params.scenario, trainer.data) == (trainer.scenario.params, trainer.scenario.data)


@pytest.mark.backend
def test_before_a_training() -> None:
    made = line_params([1.0], None, None)
    made.scenario.model.start = 2.0
    trainer = LineScenario.create_trainer(made)
    assert [sample.outputs["y"].tolist() for sample in trainer.predict(X)] == [[1.0], [6.0]]
    with pytest.raises(UsageError, match="no validation data: give evaluate"):
        trainer.evaluate()
    for loss in (6.0, 3.0):
        assert trainer.evaluate(PointsParams(x=[3.0]))["loss"] == loss
        trainer.train()
    brought = BroughtScenario.create_trainer(brought_params("unnamed"))
    assert isinstance(brought.model, keras.Sequential)


@pytest.mark.backend
@pytest.mark.parametrize("reason", [*StopReason])
def test_why_a_training_has_ended(reason: StopReason) -> None:
    def end(epoch: int, logs: Any) -> None:
        if reason is StopReason.SIGNAL:
            signal.raise_signal(signal.SIGTERM)
        stop.model.stop_training = reason is StopReason.CALLBACK

    def within(batch: int, logs: Any) -> None:
        assert trainer.stop_reason is (reason if reason is StopReason.NOT_FINITE else None)

    stop = CallbackOf(on_epoch_end=end, on_train_batch_end=within)
    made = line_params([1.0], [3.0], lr=0.0, epochs=3)
    made.scenario.model.start = 2.0
    made.gen.train.x = [float("nan") if reason is StopReason.NOT_FINITE else 1.0]
    made.early_stopping.n_to_go = 2 if reason is StopReason.EARLY_STOPPING else -1
    trainer = LineScenario.create_trainer(made)
    assert trainer.stop_reason is None
    with contextlib.suppress(TrainingInterrupted, TrainingDiverged):
        trainer.train([stop])
    assert trainer.stop_reason is reason
    epochs = {StopReason.LAST_EPOCH: 3, StopReason.EARLY_STOPPING: 2, StopReason.NOT_FINITE: 0}
    assert trainer.epoch == epochs.get(reason, 1)
    assert trainer.evaluate()["loss"] == 6.0  # the trained weights are there, however it ended


SEEN: list[Any] = []


class TwiceTrainer(Trainer[LineTrainerParams]):
    """As clients of tfaip 1.2 write it: a second training from epoch 1, with other data and params."""

    def __init__(self, params: LineTrainerParams, scenario: Any, restore: bool = False) -> None:
        super().__init__(params, scenario, restore)

    def setup_data(self) -> None:
        SEEN.append("data")

    def setup_steps_per_epoch(self) -> None:
        SEEN.append("steps")

    def fit(self) -> Any:  # its result is that of the last call
        logs = super().fit()
        SEEN.append((self.epoch, self.params.current_epoch, self._data is self.scenario.data, logs["loss"]))
        self.params.current_epoch, self.params.epochs = 0, 3
        self.params.learning_rate.lr = 0.5
        self.params.gen.train.x = [2.0]
        self.setup_data()
        self.setup_steps_per_epoch()
        super().fit()
        SEEN.append((self.epoch, self.params.current_epoch))


# w = 0; 2 epochs of 2 steps of -1, then 3 epochs of a step of -0.5 * 2.
TWICE = [-2.0, -4.0, -5.0, -6.0, -7.0]


def params(run: Path | None, **fields: Any) -> LineTrainerParams:
    return line_params([1.0, 1.0], [1.0], run, **{"epochs": 2, **fields})


def run(made: Any, trainer_cls: Any = TwiceTrainer, *callbacks: Any, restore: bool = False) -> tuple[Any, Logs]:
    SEEN.clear()
    scenario = type("LineScenario", (LineScenario,), {"trainer_cls": classmethod(lambda cls: trainer_cls)})
    scenario.__module__ = LineScenario.__module__
    trainer = scenario.create_trainer(made, restore=restore, checkpoint=None, from_stage=None)
    return trainer, trainer.train(list(callbacks))


def test_a_second_call_goes_on_with_the_weights_and_changed_params() -> None:
    weights = Weights()
    trainer, logs = run(params(None), TwiceTrainer, weights)
    assert weights.values == TWICE
    assert (weight(trainer), trainer.epoch, trainer.params.current_epoch) == (-7, 5, 3)
    assert ["data", "steps", (2, 2, True, pytest.approx(-2.5)), "data", "steps", (5, 3)] == SEEN
    # The mean of w * x over the last epoch is that before its step.
    assert logs["loss"] == -12
    assert [trainer.history[epoch].lr for epoch in range(1, 6)] == [1, 1, 0.5, 0.5, 0.5]
    assert [trainer.history[epoch].meta["stage"] for epoch in (2, 3)] == ["main", "main"]


def stopping(epoch: int) -> Any:
    """Send a signal in an epoch, from 1."""

    def on_epoch_begin(number: int, logs: Any = None) -> None:
        if number == epoch - 1:
            os.kill(os.getpid(), signal.SIGTERM)

    return CallbackOf(on_epoch_begin=on_epoch_begin)


@pytest.mark.slow
@pytest.mark.backend
def test_a_run_with_two_calls_resumes_in_the_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for epoch, text in ((2, "continue with 'tfaip-resume-training"), (5, "a run cannot be resumed in a later call")):
        with pytest.raises(TrainingInterrupted):
            run(params(tmp_path / str(epoch)), TwiceTrainer, stopping(epoch))
        assert f"checkpoint written; {text}" in caplog.text
    weights = Weights()
    trainer, logs = run(params(tmp_path / "2"), TwiceTrainer, weights, restore=True)
    assert weights.values == TWICE[1:]
    assert (weight(trainer), trainer.epoch, logs["loss"]) == (-7, 5, -12)
    assert sorted(map(int, json.loads((tmp_path / "2/history.json").read_text()))) == [1, 2, 3, 4, 5]
    with pytest.raises(UsageError, match="^the stage .main. is .* .first_epoch: 3 -> 1.: .* from an earlier checkp"):
        run(params(tmp_path / "5"), TwiceTrainer, restore=True)


def test_hooks_without_effect_are_named(caplog: pytest.LogCaptureFixture) -> None:
    class CountingTrainer(Trainer[LineTrainerParams]):
        """Sets a number that the trainer of tfaip 1.2 read."""

        def setup_steps_per_epoch(self) -> None:
            self._steps_per_epoch = 1

    run(params(None, epochs=1), CountingTrainer)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "CountingTrainer sets _steps_per_epoch, which the training does not read: set self.params.samples_per_epoch, "
        "a number of samples"
    ]


def test_fit_alone_is_refused_and_a_trial_trains_once(tmp_path: Path) -> None:
    made = params(tmp_path / "run")
    trainer = TwiceTrainer(made, LineScenario(made.scenario))
    with pytest.raises(UsageError, match="^fit is a part of train: call train, and override fit to train a second"):
        trainer.fit()
    SEEN.clear()
    trainer.dry_run()
    assert [entry[:2] for entry in SEEN if isinstance(entry, tuple)] == [(1, 1), (1, 1)] * 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_methods_for_programs_that_continue_a_run(tmp_path: Path) -> None:
    made = params(tmp_path / "run", epochs=1)
    LineScenario.create_trainer(made).train()
    values = json.loads((tmp_path / "run/trainer_params.json").read_text())
    parsed = Trainer.parse_trainer_params(values)
    assert (type(parsed), parsed.epochs, parsed.scenario.cls()) == (LineTrainerParams, 1, LineScenario)
    trainer = Trainer.restore_trainer(tmp_path / "run/checkpoint")
    trainer.params.epochs = 2
    trainer.train()
    assert (weight(trainer), trainer.epoch, trainer.params.current_epoch) == (-4, 2, 2)
    with pytest.raises(UsageError, match="names no scenario"):
        Trainer.parse_trainer_params({})
    for name in ("restore_trainer", "parse_trainer_params"):
        own = type("Own", (Trainer,), {name: staticmethod(lambda path: None)})
        with pytest.raises(TypeError, match=rf"^Own\.{name} would never be called: override create_trainer"):
            own(params(None), LineScenario(LineScenario.default_params()))
