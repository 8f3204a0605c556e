"""Models of all stages before the first batch: what cannot work is known at the start, and so are the transfers."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import LineScenario, train
from test.trainer.stages.stagedruns import Seen, stage, staged_params
from tfaip.errors import UsageError
from tfaip.trainer.stages.params import PretrainingParams, TrainStage
from tfaip.trainer.transfer.params import TransferMode, TransferParams

NOTHING = "line->curve"
WRONG = {
    "a transfer to the last stage": (
        {"a": stage(1), "b": stage(1)},
        {"transfer": TransferParams(rename=[NOTHING])},
        "^stage main takes over no weight of stage b: their paths differ, or transfer excludes all; correct",
    ),
    "blocks": (
        {"a": stage(1), "b": TrainStage(epochs=1, transfer=TransferParams(rename=["a->a"], blocks={"top": [3]}))},
        {},
        "^--stages.b.transfer.blocks 'top' matches no weight; ",
    ),
    "layers that are not trained in a stage": (
        {"a": stage(1), "b": TrainStage(epochs=1, no_train_scope="top")},
        {},
        "^stage b: --stages.b.no_train_scope 'top' matches no layer; it must match .*; the layers are line$",
    ),
    "a loss": (
        {"a": stage(1), "b": stage(1, loss_weights__ctc=1.0)},
        {},
        "^stage b: --trainer.loss_weights names ctc; the losses are loss$",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_fits_no_model_is_known_before_the_first_batch(name: str, tmp_path: Path) -> None:
    stages, fields, message = WRONG[name]
    seen = Seen()
    with pytest.raises(UsageError, match=message) as error:
        train(staged_params([1.0], stages, epochs=3, output_dir=tmp_path / "run", **fields), seen)
    assert "\n" not in str(error.value)
    assert seen.epochs == []
    assert not (tmp_path / "run").exists()


def tiny(run: Path, stages: dict[str, Any], **fields: Any) -> TinyTrainerParams:
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs, params.stages = str(run), 3, 4, stages
    params.samples_per_epoch, params.val_every_n, params.skip_model_load_test = 4, 0, True
    params.export_best = params.export_final = False
    for name, value in fields.items():
        setattr(params, name, value)
    return params


@pytest.mark.slow
def test_the_table_tells_which_weights_follow(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stages = {
        "small": TrainStage(epochs=1, overrides={"model.units": 3}),
        "held": TrainStage(epochs=1, overrides={"model.units": 3, "learning_rate.lr": 0}),
        "wide": TrainStage(epochs=1),
        "fresh": TrainStage(epochs=1, transfer=TransferParams(mode=TransferMode.NONE)),
    }
    with caplog.at_level(logging.INFO):
        train(tiny(tmp_path / "run", stages, epochs=5), scenario=TinyScenario)
    (record,) = [record for record in caplog.records if record.getMessage().startswith("stages:")]
    rows = [re.split("  +", line) for line in record.console_text.splitlines()]  # type: ignore[attr-defined]
    assert rows == [
        ["stage", "epochs", "weights at its beginning", "params that differ from the final ones"],
        ["small", "1", "4 fresh", "model.units=3"],
        ["held", "2", "all kept", "learning_rate.lr=0.0, model.units=3"],
        ["wide", "3", "1 copied, 3 resized, 0 fresh"],
        ["fresh", "4", "0 copied, 0 resized, 4 fresh", "transfer none"],
        ["main", "5", "all kept"],
    ]
    assert "out/kernel 8x1 loaded in part [3, 1] -> [8, 1]" in " ".join(record.getMessage().split())
    # Names of weights are in the log of the run.
    log = (tmp_path / "run" / "train.log").read_text()
    assert "weights of stage fresh:" in log
    assert "left fresh: mode none" in log


@pytest.mark.slow
def test_hooks_are_asked_once(tmp_path: Path) -> None:
    asked: list[int] = []

    class AskedScenario(LineScenario):
        @classmethod
        def pretraining(cls, idx: int, params: Any) -> Any:
            asked.append(idx)
            return None if idx == 2 else params

    params = staged_params([1.0], {}, epochs=4, pretraining=PretrainingParams(), output_dir=tmp_path / "run")
    AskedScenario.create_trainer(params).train()
    assert asked == [0, 1, 2]
