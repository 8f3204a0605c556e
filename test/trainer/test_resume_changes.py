"""Resuming with other params, and what an epoch counts."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.tiny.scenario import Jitter, JitterParams, TinyScenario, TinyTrainerParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.trainer.signals import TrainingInterrupted

pytestmark = pytest.mark.backend


class StopAfter(keras.callbacks.Callback):
    """Sends SIGTERM to this process after a number of batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.batches = batches

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch + 1 == self.batches:
            signal.raise_signal(signal.SIGTERM)


def tiny_params(directory: Path, **kwargs: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(directory), 3, 1
    params.export_best = params.export_final = False
    for name, value in kwargs.items():
        setattr(params, name, value)
    return params


def newest_state(directory: Path) -> dict[str, Any]:
    latest = (directory / "checkpoint" / "latest").read_text().strip()
    state: dict[str, Any] = json.loads((directory / "checkpoint" / latest / "state.json").read_text())
    return state


def test_an_epoch_goes_on_with_batches_of_another_size(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(tiny_params(run)).train([StopAfter(6)])
    assert [newest_state(run)[name] for name in ("epoch", "step", "samples")] == [0, 6, 24]
    params = tiny_params(run)
    params.gen.setup.train.batch_size = 8
    TinyScenario.create_trainer(params, restore=True).train()
    # 44 samples: 6 batches of 4, then 8 + 8 + 4.
    state = newest_state(run)
    assert state["history"]["1"]["meta"]["updates"] == 9
    assert [state[name] for name in ("epoch", "step", "samples")] == [1, 0, 0]
    # A pass has 30 samples: the epoch ended 14 samples into the second.
    assert (state["position"]["pass_index"], state["position"]["consumed"]) == (1, 14)


def test_a_larger_batch_than_what_is_left_ends_the_epoch_in_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with pytest.raises(TrainingInterrupted):
        TinyScenario.create_trainer(tiny_params(run)).train([StopAfter(10)])
    params = tiny_params(run)
    params.gen.setup.train.batch_size = 30
    TinyScenario.create_trainer(params, restore=True).train()
    assert newest_state(run)["history"]["1"]["meta"]["updates"] == 11


def test_checkpoints_are_counted_in_updates(tmp_path: Path) -> None:
    params = tiny_params(tmp_path / "run", checkpoint_save_freq="2", train_accum_steps=2, keep_checkpoints=9)
    params.steps_per_execution = 1
    TinyScenario.create_trainer(params).train()
    # 11 batches; an update every second batch, a checkpoint every second update.
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoint").iterdir() if path.is_dir())
    assert names == ["epoch_0000_step_000004", "epoch_0000_step_000008", "epoch_0001"]


def test_dropped_samples_are_counted_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Jitter.apply

    def drop_some(self: Jitter, sample: Sample) -> Sample:
        jittered = kept(self, sample)
        return jittered.new_invalid() if self.mode.value == "training" and sample.inputs["x"][0] > 0 else jittered

    monkeypatch.setattr(Jitter, "apply", drop_some)
    params = tiny_params(tmp_path / "run", samples_per_epoch=12)
    assert isinstance(params.scenario.data.pre_proc.processors[0], JitterParams)
    TinyScenario.create_trainer(params).train()
    dropped = newest_state(tmp_path / "run")["history"]["1"]["meta"]["dropped"]
    assert dropped > 0
    assert f"dropped training samples so far: {dropped} invalid" in (tmp_path / "run" / "train.log").read_text()


@pytest.mark.parametrize(
    ("name", "value"),
    [("random_seed", -1), ("random_seed", 2**32), ("checkpoint_sub_dir", "best"), ("checkpoint_sub_dir", "../x")],
)
def test_values_that_cannot_work_name_the_flag(name: str, value: object, tmp_path: Path) -> None:
    params = tiny_params(tmp_path / "run", **{name: value})
    with pytest.raises(ValueError, match=f"--trainer.{name}"):
        TinyScenario.create_trainer(params)


def test_the_model_is_that_of_the_params_of_the_scenario(tmp_path: Path) -> None:
    params = TinyScenario.default_params()

    class Other(type(params.model)):  # type: ignore[misc]
        @staticmethod
        def cls() -> type:
            from test.support.tiny.model import TinyModel

            class OtherModel(TinyModel):
                pass

            return OtherModel

    params.model = Other()
    assert type(TinyScenario(params).model).__name__ == "OtherModel"
