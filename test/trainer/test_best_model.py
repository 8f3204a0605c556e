"""The best epoch and early stopping; `best/` holds the best epoch of the training that continues."""

import json
import logging
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from test.support.commands import exit_code
from test.support.runs import files_below
from test.trainer.line import (
    CallbackOf,
    LinePipelineParams,
    LineScenario,
    LineTrainerParams,
    PointsParams,
    line_params,
    train,
)
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import WEIGHTS_FILE, load_arrays
from tfaip.scripts import export
from tfaip.trainer.best import BestModel, EarlyStoppingParams, EarlyStoppingStatus
from tfaip.trainer.history import History
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
    train(falling(run, rates, **fields), restore=True, checkpoint=checkpoint)


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
@pytest.mark.parametrize(
    ("flag", "value", "reason"),
    [
        ("", None, "val_loss of epoch 1 was edited"),
        ("model.monitor", ["max", "distance"], "max val_distance decides, not"),
        ("val.x", [3.0], "--val.x: [1.0] -> [3.0]"),
        ("gen.shift", 2.0, "--gen.shift: 0.0 -> 2.0"),
    ],
    ids=["history", "monitor", "data", "field"],
)
def test_the_best_begins_again_where_scores_do_not_compare(run: Path, flag: str, value: Any, reason: str) -> None:
    for rates in ([1.0, 1.0, 1.0, 1.0, 0.5, 0.0], [1.0, 1.0, 1.0, 1.0, 0.5, 0.0, 0.0]):
        params, file = falling(run, rates), run / "history.json"
        if flag:
            params.set_flags({flag: value})
        else:
            records = json.loads(file.read_text())
            records["1"]["values"]["val_loss"] = 0.5
            file.write_text(json.dumps(records))
        train(params, restore=True)
        # Epoch 5 is the first that compares; 6 and 7 are as good.
        assert (best_weight(run), read_run(run)["best_epoch"]) == (5.5, 5)
    text = (run / "train.log").read_text()
    assert text.count("the best model begins again") == text.count(f"after epoch 4: {reason}") == 1
    assert text.count(" in epoch 5\n") == 2


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
    def finish() -> None:  # nothing is left to train
        train(falling(run, [1.0] * 4, export_final=True), restore=True)

    finish()
    added = with_format(run, model=model)
    (run / model / "notes.txt").write_text("the one for the demo")
    (run / model / "data").symlink_to(run)
    finish()
    assert files_below(run / model / "keras") == added
    assert (run / model / "notes.txt").read_text() == "the one for the demo"
    assert (run / model / "data").is_symlink()
    verify_files(run / model, [*read_manifest(run / model)["files"]])
    assert "gone" not in (run / "train.log").read_text()
    if model == "export":
        spoil(run / model / "keras" / "serve.keras")
        finish()
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


def test_no_format_is_added_while_a_process_trains(run: Path, capsys) -> None:
    before = files_below(run)
    with RunDirectory(run).locked():
        assert exit_code(export.main, [str(run / "best"), "--format", "keras"]) == 2
    assert "best may be replaced by another process, which trains or exports there" in capsys.readouterr().err
    assert files_below(run) == before


@pytest.mark.parametrize(("file", "checkpoint"), [("manifest.json", "epoch_0004"), (WEIGHTS_FILE, "epoch_0002")])
def test_a_sound_model_is_not_replaced_by_a_damaged_copy(file, checkpoint, run, caplog):
    before, copy = files_below(run / "best"), run / "checkpoint" / checkpoint / "best" / file
    spoil(copy)
    if file == "manifest.json":
        copy.write_text("{")
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


def test_the_validation_value_is_monitored_if_there_is_one() -> None:
    logged = ["loss", "acc", "loss/mean_epoch"]
    assert BestModel.of(("max", "acc"), True, logged) == BestModel("max", "val_acc")
    assert BestModel.of(("min", "loss/mean_epoch"), False, logged) == BestModel("min", "loss/mean_epoch")
    unknown = r"follows 'val_acc' .*, which is not logged; did you mean acc\?$"
    with pytest.raises(UsageError, match=unknown):
        BestModel.of(("max", "val_acc"), True, logged)


def test_an_epoch_is_best_when_it_is_the_first_with_the_best_value() -> None:
    best, history = BestModel("max", "val_acc"), History()
    expected = {1: (0.5, True), 2: (0.7, True), 3: (0.7, False), 4: (0.9, True), 5: (NAN, False), 6: (0.8, False)}
    for epoch, (value, is_best) in expected.items():
        history.set_values(epoch, {"val_acc": value})
        assert (best.epoch(history) == epoch) is is_best


def status(values, mode="max", **kwargs):
    return EarlyStoppingParams(**kwargs).status(dict(enumerate(values, start=1)), mode)


FLAT, NAN = [0.5] * 10, math.nan
STOPS = {
    "off by default": (FLAT * 10, {}, None),
    "the first epoch counts": (FLAT, {"n_to_go": 4}, 4),
    # 1 at the best in epoch 1, 2 in epoch 2, nothing in epoch 3, 3 in epoch 4.
    "every second epoch": (FLAT, {"n_to_go": 3, "frequency": 2}, 4),
    "goal": ([0.5, 0.98, 0.99, 0.995], {"n_to_go": 100, "upper_threshold": 0.99}, 3),
    "the count begins": ([0.4, 0.4, 0.4, 0.6, 0.6, 0.6], {"n_to_go": 3, "lower_threshold": 0.5}, 6),
}


@pytest.mark.parametrize("name", STOPS)
def test_stops(name):
    values, fields, expected = STOPS[name]
    assert status(values, **fields).stops_after == expected


@pytest.mark.parametrize("limit", [0.9, 0.1])
def test_a_threshold_is_reached_exactly_in_float32_and_in_float64(limit):
    for value in (float(np.float32(limit)), limit):
        assert status([0.05, value], upper_threshold=limit).stops_after == 2
        # Counting begins when the other one is reached: the second value is the first that counts.
        assert status([0.99, value, 0.99], mode="min", n_to_go=2, upper_threshold=limit).stops_after == 3
    below = float(np.nextafter(np.float32(limit), np.float32(0)))
    assert status([below], upper_threshold=limit).stops_after is None


def test_earlier_epochs_are_compared_but_not_counted():
    params = EarlyStoppingParams(n_to_go=3)
    values = dict(enumerate([0.9, 0.5, 0.5, 0.5, 0.6, 0.6, 0.6], start=1))
    assert params.status(values, "max", counted_from=5) == EarlyStoppingStatus(0.9, 3, 7)
    assert params.status({**values, 6: 0.95}, "max", counted_from=5) == EarlyStoppingStatus(0.95, 2, None)


def test_one_epoch_without_a_new_best_is_two(caplog: pytest.LogCaptureFixture) -> None:
    trainer = train(line_params([1.0], epochs=3, early_stopping=EarlyStoppingParams(n_to_go=1)))
    assert trainer.epoch == 1
    assert "n_to_go 1 stops after the first epoch, also a best one" in caplog.text


def reference(values, mode, n_to_go, frequency, lower_threshold, upper_threshold):
    """The epoch after which to stop, read off the description, epoch by epoch, without a counter."""
    if mode == "min":
        negated = [None if threshold is None else -threshold for threshold in (upper_threshold, lower_threshold)]
        return reference({e: -v for e, v in values.items()}, "max", n_to_go, frequency, *negated)
    for now in sorted(values):
        seen = {epoch: values[epoch] for epoch in sorted(values) if epoch <= now}
        finite = {epoch: value for epoch, value in seen.items() if math.isfinite(value)}
        if upper_threshold is not None and now in finite and finite[now] >= upper_threshold:
            return now
        reached = [epoch for epoch in finite if lower_threshold is None or finite[epoch] >= lower_threshold]
        if n_to_go == -1 or (lower_threshold is not None and not reached):
            continue
        best_epoch = min((e for e in finite if finite[e] == max(finite.values())), default=None)
        without_a_new_best = [e for e in seen if e % frequency == 0 and (best_epoch is None or e > best_epoch)]
        if len(without_a_new_best) + (best_epoch is not None) >= n_to_go:
            return now
    return None


VALUES = st.dictionaries(
    st.integers(1, 30), st.sampled_from([-2, -1, -0.5, 0, 0.5, 1, 2, math.nan, math.inf, -math.inf]), max_size=30
)
THRESHOLD = st.none() | st.sampled_from([-1.5, -1, -0.5, 0, 0.5, 1, 1.5])


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    values=VALUES,
    mode=st.sampled_from(["min", "max"]),
    n_to_go=st.sampled_from([-1, 1, 2, 3, 5]),
    frequency=st.integers(1, 4),
    thresholds=st.tuples(THRESHOLD, THRESHOLD).filter(lambda pair: None in pair or pair[0] < pair[1]),
)
def test_every_stop_is_that_of_the_description(values, mode, n_to_go, frequency, thresholds):
    fields = {"n_to_go": n_to_go, "frequency": frequency}
    fields |= {"lower_threshold": thresholds[0], "upper_threshold": thresholds[1]}
    assert EarlyStoppingParams(**fields).status(values, mode).stops_after == reference(values, mode, **fields)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"n_to_go": 0}, "n_to_go is 0, expected at least 1, or -1 for off"),
        ({"lower_threshold": 1.0, "upper_threshold": 0.5}, "lower_threshold is 1.0, expected a number below upper"),
    ],
)
def test_impossible_values_name_the_field(kwargs, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        EarlyStoppingParams(**kwargs)


@pytest.mark.guard
def test_the_status_of_early_stopping_can_be_read_and_survives_a_resume(tmp_path):
    for epochs, restore, counted in ((2, False, [0, 1, 2]), (9, True, [2, 3, 4, 5])):
        run = line_params([1.0], [1.0], tmp_path / "run", lr=0.0, epochs=epochs, export_best=True)
        run.early_stopping = EarlyStoppingParams(n_to_go=5, best_model_name="finest")
        trainer, seen = LineScenario.create_trainer(run, restore=restore), []
        stopping = trainer.params.early_stopping

        def look(epoch=None, logs=None, stopping=stopping, seen=seen):
            seen.append(stopping.n)
            if epoch is not None:
                assert (stopping.mode, stopping.monitor) == ("min", "val_loss/mean_epoch")
                assert stopping.current == logs["val_loss"]

        trainer.train([CallbackOf(on_train_begin=lambda logs, look=look: look(), on_epoch_end=look)])
        assert seen == counted
        assert trainer.early_stopping.n == seen[-1]
        assert (run.early_stopping.monitor, run.early_stopping.n) == (None, 0)
    assert (tmp_path / "run" / "finest" / "weights.safetensors").is_file()
    assert not (tmp_path / "run" / "best").exists()
