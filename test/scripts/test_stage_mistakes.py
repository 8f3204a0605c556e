"""Stages that cannot work: one clear line, exit code 2, before the first batch; and what a plan looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from test.support.commands import CommandResult

Run = Callable[..., CommandResult]

TINY = "test.support.tiny"
ONE = ["--stages", "small=TrainStage", "--stages.small.epochs", "2"]
NO_EPOCHS = "stages:\n  a: {__cls__: Train}\n"
NO_CLASS = "stages:\n  a: {times: 1}\n"
FOREIGN = "stages: {c: {__cls__: Call, function: 'statistics:mean'}}"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--stages", "small"], "missing required flag: --stages.small.epochs"),
        (["--stages", "small=Trian"], "--stages: no class 'Trian'; did you mean Train? (or module:Class)"),
        ([*ONE, "--stages.small.epochs=0"], "--stages.small.epochs is given twice: give it once"),
        (
            ["--stages", "a=Train", "--stages.a.epochs", "0"],
            "epochs is 0, expected at least 1, or None: change --stages.a.epochs",
        ),
        (
            ["--stages", "p=Predict", "--stages.p.file_name", "../x.jsonl"],
            "file_name is '../x.jsonl', expected a file name that ends with .jsonl or .npz (it is no plain name): "
            "change --stages.p.file_name",
        ),
        (["--config", "epochs.yaml"], "missing required flag: --stages.a.epochs"),
        (
            ["--config", "class.yaml"],
            "class.yaml: unknown key stages.a.times; did you mean stages.a.epochs or stages.a.overrides or "
            "stages.a.no_train_scope?",
        ),
        (
            ["--config", "foreign.yaml"],
            "foreign.yaml: stages.c.function: function 'statistics:mean' is refused: statistics is not among the "
            "trusted packages (test); if you know the file, trust it: --trust statistics",
        ),
    ],
)  # fmt: skip
def test_stages_that_cannot_work(flags: Sequence[str], message: str, run: Run, tmp_path: Path) -> None:
    files = {"epochs": NO_EPOCHS, "class": NO_CLASS, "foreign": FOREIGN}
    for name, text in files.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    code, out, err = run("train", TINY, "--trainer.output_dir", tmp_path / "out", *flags)
    assert (code, out, err) == (2, "", f"error: {message}\n")
    assert not (tmp_path / "out").exists()


def test_a_pattern_that_matches_no_layer_of_a_stage(run: Run, tmp_path: Path) -> None:
    flags = ["--trainer.output_dir", tmp_path / "out", *ONE, "--stages.small.no_train_scope", "nothing"]
    code, _, err = run("train", TINY, *flags)
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: stage small: --trainer.no_train_scope 'nothing' matches no layer; ")
    assert not (tmp_path / "out").exists()


def test_preview_of_the_rates_of_all_stages(run: Run) -> None:
    flags = [
        *["--trainer.epochs", "9", "--learning_rate", "PolynomialDecay", "--learning_rate.lr", "0.9"],
        *["--stages", "warm=Train", "p=Predict", "held=Train", "later=Train"],
        *["--stages.warm.epochs", "2", "--stages.held.epochs", "2", "--stages.later.epochs", "1"],
        *["--stages.warm.overrides", "learning_rate=Constant", "learning_rate.lr=0.05", "train.batch_size=11"],
        *["--stages.held.rate_control", "False", "--stages.later.overrides", "no_train_scope={p.file}"],
    ]
    code, out, err = run("preview_schedule", TINY, *flags)
    assert (code, err) == (0, "")
    table, rates = out.split("\n\n")[0].splitlines(), out.split("\n\n")[2].splitlines()
    assert [line.split()[:2] for line in table[1:]] == [
        ["warm", "1-2"],
        ["p", "-"],
        ["held", "3-4"],
        ["later", "5"],
        ["main", "6-9"],
    ]
    # A rule goes from 1 in epoch 1 to 0 after epoch 9, whatever the epochs before it were.
    assert [line.split(maxsplit=2) for line in rates] == [
        ["epoch", "stage", "rate"],
        ["1-2", "warm", "0.05"],
        ["3-4", "held", "0.9"],
        ["5", "later", "known when the stage is reached"],
        ["6", "main", "0.4"],
        ["7", "main", "0.3"],
        ["8", "main", "0.2"],
        ["9", "main", "0.1"],
    ]
    # Two epochs of 4 batches, seven of 11.
    assert "Constant, PolynomialDecay: 9 epochs in 4 stages, 85 updates" in out
