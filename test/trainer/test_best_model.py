"""`best/` holds the best epoch of the training that goes on, also from an older checkpoint."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.commands import exit_code
from test.support.runs import files_below
from test.trainer.line import LinePipelineParams, LineScenario, LineTrainerParams, PointsParams, line_params, train
from tfaip.errors import TfaipError
from tfaip.model.weights import WEIGHTS_FILE, load_arrays
from tfaip.scripts import export
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.tools.runs import read_run
from tfaip.util.manifest import read_manifest, verify_files


class ShiftedPipelines(LinePipelineParams):
    """With a field of its own, for the validation."""

    shift: float = 0.0

    def val_gen(self) -> PointsParams:
        return PointsParams(x=[x + self.shift for x in self.val.x])


def falling(run: Path, rates: list[float], **fields: Any) -> LineTrainerParams:
    """Every epoch lowers the weight, from 10 on, by its rate in two steps; the loss of the validation is the weight."""
    always = {"checkpoint_save_freq": "1", "steps_per_execution": 1, "keep_checkpoints": 9, "export_best": True}
    params = line_params([0.5, 0.5], [1.0], run, epochs=len(rates), **(always | fields))
    params.scenario.model.start, params.scenario.model.monitor = 10.0, ["min", "loss"]
    params.gen = ShiftedPipelines(setup=params.gen.setup, train=params.gen.train, val=params.gen.val)
    params.learning_rate.rates = rates
    return params


def resumed(run: Path, checkpoint: str, rates: list[float], **fields: Any) -> None:
    LineScenario.create_trainer(falling(run, rates, **fields), restore=True, checkpoint=checkpoint).train()


def best_weight(run: Path) -> float:
    return float(load_arrays(run / "best" / WEIGHTS_FILE)["line/kernel"][0, 0])


@pytest.fixture(scope="module")
def four_epochs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights 9, 8, 7, 6: each epoch is the best one."""
    run = tmp_path_factory.mktemp("best") / "run"
    train(falling(run, [1.0] * 4))
    assert best_weight(run) == 6.0
    return run


@pytest.fixture
def run(four_epochs: Path, tmp_path: Path) -> Path:
    """A copy, which may be changed."""
    copy = tmp_path / "run"
    shutil.copytree(four_epochs, copy)
    return copy


@pytest.mark.parametrize(
    ("rates", "fields", "best"),
    [
        # Epoch 3 is as good as epoch 2, whose model is there again; that of epoch 4 was better, but is no more.
        pytest.param([1.0, 1.0, 0.0], {}, 8.0, marks=pytest.mark.guard),
        ([1.0, 1.0, 0.5], {}, 7.5),
        ([1.0, 1.0, 0.0], {"write_checkpoints": False}, 8.0),
        ([1.0, 1.0, 0.5], {"export_best": False}, 8.0),
    ],
    ids=["abandoned", "better", "no checkpoints", "no export"],
)
def test_the_best_model_after_an_older_checkpoint(rates, fields, best, run: Path) -> None:
    line = f"{run / 'best'} is again what it was at checkpoint epoch_0002"
    if not fields and best == 8.0:
        with_format(run)
        line = f"files that belonged to another model are gone from {run / 'best'}: keras"
    resumed(run, "epoch_0002", rates, **fields)
    assert best_weight(run) == best
    assert line in (run / "train.log").read_text()


def test_a_model_that_was_better_than_the_checkpoint_knows_is_written_again(run: Path) -> None:
    before = (run / "best").stat().st_ino
    resumed(run, "epoch_0004", [1.0] * 4)
    assert (run / "best").stat().st_ino == before
    # Killed behind the export of the best model, before the checkpoint of its epoch.
    shutil.rmtree(run / "checkpoint" / "epoch_0004")
    resumed(run, "epoch_0003", [1.0] * 4)
    assert best_weight(run) == 6.0
    resumed(run, "epoch_0003", [1.0] * 3)
    assert best_weight(run) == 7.0


def test_without_a_best_epoch_there_is_no_best_model(run: Path) -> None:
    resumed(run, "epoch_0000_step_000001", [1.0])
    text = (run / "train.log").read_text()
    assert "best is gone: at checkpoint epoch_0000_step_000001 there was no best model" in text
    assert best_weight(run) == 9.0  # its first epoch is its best one


@pytest.mark.slow
def test_an_epoch_without_a_finite_value_is_no_best_epoch(tmp_path: Path) -> None:
    run = tmp_path / "run"
    params = falling(run, [1.0])
    params.gen.val.x = [float("nan")]
    train(params)
    resumed(run, "epoch_0001", [1.0, 1.0])
    assert best_weight(run) == 8.0
    # Back to the epoch whose loss is not a number: the model belongs to an abandoned epoch.
    resumed(run, "epoch_0001", [1.0])
    assert not (run / "best").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (None, "val_loss of epoch 1 was edited"),
        (
            lambda params: setattr(params.scenario.model, "monitor", ["max", "distance"]),
            "max val_distance decides, not",
        ),
        (lambda params: setattr(params.gen.val, "x", [3.0]), "--val.x: [1.0] -> [3.0]"),
        (lambda params: setattr(params.gen, "shift", 2.0), "--gen.shift: 0.0 -> 2.0"),
    ],
    ids=["history", "monitor", "data", "field"],
)
def test_the_best_begins_again_where_scores_do_not_compare(run: Path, change, reason) -> None:
    for rates in ([1.0, 1.0, 1.0, 1.0, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]):
        params, file = falling(run, rates), run / "history.json"
        if change is None:
            records = json.loads(file.read_text())
            records["1"]["values"]["val_loss"] = 0.5
            file.write_text(json.dumps(records))
        else:
            change(params)
        LineScenario.create_trainer(params, restore=True).train()
        # Epoch 5 is the first that compares; 6 and 7 are as good.
        assert (best_weight(run), read_run(run)["best_epoch"]) == (5.5, 5)
    text = (run / "train.log").read_text()
    assert text.count("the best model begins again") == text.count(f"after epoch 4: {reason}") == 1
    assert text.count(" in epoch 5\n") == 2


@pytest.mark.slow
def test_a_model_of_an_abandoned_epoch_goes_though_earlier_ones_were_not_exported(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(falling(run, [1.0] * 2, export_best=False))
    resumed(run, "epoch_0002", [1.0] * 3)
    assert best_weight(run) == 7.0
    resumed(run, "epoch_0002", [1.0, 1.0, 0.0])  # epoch 3 is as good as epoch 2, which is the best one
    assert not (run / "best").exists()


def test_a_model_that_stays_the_best_takes_no_further_space(four_epochs: Path) -> None:
    kept = {path.parts[-3]: path.stat().st_ino for path in four_epochs.glob(f"checkpoint/*/best/{WEIGHTS_FILE}")}
    assert sorted(kept) == [
        *(f"epoch_000{epoch}{step}" for epoch in (1, 2, 3) for step in ("", "_step_000001")),
        "epoch_0004",
    ]
    assert all(kept[f"epoch_000{epoch}"] == kept[f"epoch_000{epoch}_step_000001"] for epoch in (1, 2, 3))
    assert kept["epoch_0004"] == (four_epochs / "best" / WEIGHTS_FILE).stat().st_ino
    assert len(set(kept.values())) == 4


def with_format(run: Path, model: str = "best") -> dict[str, bytes]:
    """Add a format to a model by hand; returns its files."""
    assert export.main([str(run / model), "--format", "keras"]) == 0
    return files_below(run / model / "keras")


def spoil(file: Path) -> None:
    """Change a byte of a file, and of no other one that it is linked with."""
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])


@pytest.mark.parametrize("model", ["best", "export"])
def test_what_was_added_stays_while_the_model_is_the_same(model: str, run: Path) -> None:
    train(falling(run, [1.0] * 4, export_final=True), restore=True)
    added = with_format(run, model=model)
    (run / model / "notes.txt").write_text("the one for the demo")
    (run / model / "data").symlink_to(run)
    for _ in range(2):
        train(falling(run, [1.0] * 4, export_final=True), restore=True)  # finished: nothing to train
    assert files_below(run / model / "keras") == added
    assert (run / model / "notes.txt").read_text() == "the one for the demo"
    assert (run / model / "data").is_symlink()
    verify_files(run / model, [*read_manifest(run / model)["files"]])
    assert "gone" not in (run / "train.log").read_text()
    if model == "export":
        spoil(run / model / "keras" / "serve.keras")
        train(falling(run, [1.0] * 4, export_final=True), restore=True)
        with pytest.raises(TfaipError, match="serve.keras differs from its manifest"):
            verify_files(run / model)


def test_what_was_added_to_a_model_goes_with_it(run: Path, caplog: pytest.LogCaptureFixture) -> None:
    with_format(run)
    (run / "best" / "quantized").mkdir()
    (run / "best" / "notes.txt").touch()
    with caplog.at_level(logging.WARNING, logger="tfaip"):
        train(falling(run, [1.0] * 6, export_final=True), restore=True)
    assert best_weight(run) == 4.0
    verify_files(run / "best")
    assert "added_formats" not in read_manifest(run / "best")
    messages = [message for message in caplog.messages if "previous model" in message]
    assert messages == [f"files of the previous model were removed from {run / 'best'}: keras, notes.txt, quantized"]


def test_a_format_is_added_in_the_directory_of_the_model(run: Path, monkeypatch, capsys) -> None:
    before = files_below(run)
    with RunDirectory(run).locked():
        assert exit_code(export.main, [str(run / "best"), "--format", "keras"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "best may be replaced by another process, which trains or exports there: wait for its end" in line
    assert files_below(run) == before
    monkeypatch.chdir(run / "best")
    assert export.main([".", "--format", "keras"]) == 0
    monkeypatch.chdir(run)
    (run / "link").symlink_to("export")
    shutil.copytree(run / "best", run / "export")
    assert export.main(["link", "--format", "keras"]) == 0
    assert (run / "link").is_symlink()
    for name in ("best", "export"):
        verify_files(run / name)
        stored = keras.models.load_model(run / name / "keras" / "serve.keras")
        assert stored.get_weights()[0].tolist() == [[6.0]]


@pytest.mark.parametrize(("file", "checkpoint"), [("manifest.json", "epoch_0004"), (WEIGHTS_FILE, "epoch_0002")])
def test_a_sound_model_is_not_replaced_by_a_damaged_copy(file, checkpoint, run, caplog):
    before = files_below(run / "best")
    (run / "checkpoint" / checkpoint / "best" / file).unlink()
    shutil.copy(run / "best" / file, run / "checkpoint" / checkpoint / "best" / file)
    spoil(run / "checkpoint" / checkpoint / "best" / file)
    if file == "manifest.json":
        (run / "checkpoint" / checkpoint / "best" / file).write_text("{")
    with caplog.at_level(logging.WARNING, logger="tfaip"):
        resumed(run, checkpoint, [1.0] * int(checkpoint[-1]))
    assert files_below(run / "best") == before
    (message,) = [message for message in caplog.messages if "damaged" in message]
    assert message.startswith(f"the best model of checkpoint {checkpoint} is damaged, {run / 'best'} stays as it is: ")
    assert file in message


@pytest.mark.parametrize("file", ["manifest.json", WEIGHTS_FILE])
def test_a_damaged_model_is_replaced_by_the_sound_copy(file: str, run: Path) -> None:
    before = files_below(run / "best")
    for damage in (Path.unlink, spoil if file == WEIGHTS_FILE else lambda path: (path.unlink(), path.write_text("{"))):
        damage(run / "best" / file)
        resumed(run, "epoch_0004", [1.0] * 4)
        assert files_below(run / "best") == before
