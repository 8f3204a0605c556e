"""Runs with stages that are stopped and resumed: each ends as the one that was never stopped, bit for bit."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from test.support.runs import make_once
from test.support.tiny.scenario import Jitter, TinyScenario, TinyTrainerParams
from test.trainer.line import train
from test.trainer.stages.stagedcalls import call
from test.trainer.stages.stagedruns import StopAt, differences, stage, staged_params
from tfaip.predict.samplefile import read_samples
from tfaip.trainer.signals import TrainingInterrupted
from tfaip.trainer.stages.params import PredictStage, StageParams, TrainStage


def grown_stages() -> dict[str, StageParams]:
    """Three widths, another optimizer, and the model applied to data in between."""
    return {
        "small": TrainStage(epochs=1, overrides={"model.units": "3", "optimizer": "SGD"}),
        "middle": TrainStage(epochs=2, overrides={"model.units": "5", "train.samples": "20"}),
        "apply": PredictStage(file_name="predictions.npz", include_targets=True),
        "note": call("note", text="x"),
    }


def grown_params(run: Path, **fields: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(run), 3, 5
    params.stages, params.calc_ema, params.train_accum_steps = grown_stages(), 0.9, 2
    params.checkpoint_save_freq, params.skip_model_load_test = "2", True
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def train_grown(run: Path, *stops: StopAt, **resume: Any) -> Any:
    return train(grown_params(run), *stops, scenario=TinyScenario, **resume)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    return make_once(tmp_path_factory, "grown_stages", lambda directory: _train_to_end(directory / "run")) / "run"


def _train_to_end(run: Path) -> None:
    train_grown(run)


@pytest.mark.slow
@pytest.mark.backend
def test_stopped_everywhere_and_resumed(grown: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    # Within each stage, at the end of each, and in the accumulation of gradients.
    stops = [StopAt(1, 4), StopAt(1), StopAt(2, 6), StopAt(2), StopAt(3), StopAt(4, 2), StopAt(4), StopAt(5, 10)]
    for number, stop in enumerate(stops):
        with pytest.raises(TrainingInterrupted) as error:
            train_grown(run, stop, restore=number > 0)
        assert error.value.exit_code == 143
    train_grown(run, restore=True)
    assert differences(run, grown) == []


@pytest.mark.slow
def test_the_files_of_the_stages(grown: Path) -> None:
    stages = grown / "stages"
    assert {path.name: sorted(p.name for p in path.iterdir()) for path in stages.iterdir()} == {
        "small": ["DONE", "history.json", "stage.json", "state"],
        "middle": ["DONE", "history.json", "stage.json", "state"],
        "apply": ["DONE", "predictions.npz", "stage.json"],
        "note": ["DONE", "note.json", "stage.json"],
        "main": ["DONE", "history.json", "stage.json"],
    }
    samples = list(read_samples(stages / "apply" / "predictions.npz"))
    assert len(samples) == 20
    assert set(samples[0].outputs) == {"y"}
    assert samples[0].targets is not None
    facts = json.loads((stages / "note" / "note.json").read_text())
    assert facts == {"text": "x", "stages": ["apply", "middle", "small"], "epochs": 3}


@pytest.mark.slow
@pytest.mark.backend
def test_a_run_repeats_from_a_stage(grown: Path, tmp_path: Path) -> None:
    run = _copy(grown, tmp_path)
    trained = train_grown(run, restore=True, from_stage="middle")
    assert differences(run, grown) == []
    log = (run / "train.log").read_text().split("training test.support.tiny")[-1]
    assert [epoch for epoch in range(1, 6) if f"Results of epoch {epoch:04d}" in log] == [2, 3, 4, 5]
    assert len(trained.history) == 5


def _copy(run: Path, directory: Path) -> Path:
    return Path(shutil.copytree(run, directory / "run"))


@pytest.mark.guard
def test_sigterm_in_a_prediction(grown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, count, apply = tmp_path / "run", 0, Jitter.apply

    def stop(self: Jitter, sample: Any) -> Any:
        nonlocal count
        count += self.mode.value == "evaluation" and len(list((run / "stages").glob("apply"))) > 0
        if count == 3:
            signal.raise_signal(signal.SIGTERM)
        return apply(self, sample)

    monkeypatch.setattr(Jitter, "apply", stop)
    with pytest.raises(TrainingInterrupted) as error:
        train_grown(run)
    assert error.value.exit_code == 143
    assert sorted(path.name for path in (run / "stages" / "apply").iterdir()) == ["stage.json"]
    monkeypatch.undo()
    train_grown(run, restore=True)
    assert differences(run, grown) == []


def test_tensorboard_shows_the_stages(tmp_path: Path) -> None:
    train(staged_params([1.0], {"a": stage(2)}, epochs=3, output_dir=tmp_path / "run"))
    events = EventAccumulator(str(tmp_path / "run" / "train"))
    events.Reload()
    texts = [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors("stage")]
    assert texts == [(1, "a"), (3, "main")]
