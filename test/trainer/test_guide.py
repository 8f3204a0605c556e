"""Every option of the training guide, typed as a flag, with its effect on a real training in numbers.

The scenario is `test.trainer.line`: w starts at 0, the loss is w * x, so that the gradient of a batch is its x; SGD
with the rate 1 if nothing else is said. Options that are not here have tests of their own.
"""

import logging
from pathlib import Path
from typing import Any

import pytest

from test.trainer.line import LineScenario, LineTrainerParams, Weights, line_params
from tfaip.params.commandline import ParamsParser
from tfaip.util.logging import ROOT


def run(
    flags: str, x: list[float], val_x: list[float] | None = None, output_dir: Path | None = None
) -> tuple[list[float], Any]:
    """Weights behind the epochs of a training with these flags, and its last logs."""
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", LineTrainerParams, default=line_params(x, val_x))
    weights = Weights()
    params = parser.parse(["--trainer.output_dir", "required", *flags.split()]).trainer
    params.output_dir = None if output_dir is None else str(output_dir)  # needed on the command line only
    logs = LineScenario.create_trainer(params).train([weights])
    return weights.values, logs


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        # Gradients 1, 2, 3 in one epoch.
        ("", -1 - 2 - 3),
        ("--learning_rate.lr 0.1", -0.6),
        ("--optimizer.clip_value 1.5", -1 - 1.5 - 1.5),
        ("--optimizer.clip_norm 2", -1 - 2 - 2),
        ("--optimizer.clip_global_norm 2.5", -1 - 2 - 2.5),
        # The weight shrinks by a tenth before each update: -1, -0.9 - 2, -2.61 - 3.
        ("--optimizer.weight_decay 0.1", -5.61),
        # Velocities -1, -0.5 - 2, -1.25 - 3.
        ("--optimizer SGD --optimizer.momentum 0.5", -1 - 2.5 - 4.25),
        # One update with the mean of the first two gradients; the third waits for a fourth.
        ("--trainer.train_accum_steps 2", -1.5),
        ("--trainer.scale_epoch_size 2", -12),
    ],
)
def test_one_epoch(flags: str, expected: float) -> None:
    weights, _ = run(flags, [1, 2, 3])
    assert weights == pytest.approx([expected])


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        # Two equal gradients of 1: Adam, without its epsilon, moves by the rate.
        ("--optimizer Adam", -2),
        # r / (r + 0.01) with r = sqrt(1 - 0.999^n): 0.0316228 and 0.0447102.
        ("--optimizer Adam --optimizer.epsilon 0.01", -0.759747 - 0.817219),
        # The mean without bias is 1, and so is the largest gradient.
        ("--optimizer Adamax", -2),
        # The mean of the squares is 0.1, then 0.19.
        ("--optimizer RMSprop", -(0.1**-0.5) - 0.19**-0.5),
        # Too few updates for an adaptive step, so that it is the mean of the gradients, without bias.
        ("--optimizer AdaBelief", -2),
        # (g - m)^2 is 0.81, then 0.6561: s = 0.00081, then 0.999 * 0.00081 + 0.0006561; 0.81 and 0.733012 without bias.
        ("--optimizer AdaBelief --optimizer.rectify False --optimizer.epsilon 1e-16", -1 / 0.9 - 0.733012**-0.5),
    ],
)
def test_optimizers(flags: str, expected: float) -> None:
    weights, _ = run(flags, [1, 1])
    # 1 - 0.999 has four to five digits in float32.
    assert weights == pytest.approx([expected], rel=5e-5)


@pytest.mark.parametrize(
    ("flags", "rates"),
    [
        ("--learning_rate ExponentialDecay --learning_rate.decay 0.5 --learning_rate.learning_circle 2", [1, 1, 0.5]),
    ],
)
def test_rates(flags: str, rates: list[float]) -> None:
    weights, _ = run(f"{flags} --trainer.epochs 3", [1])
    moves = [after - before for before, after in zip([0.0, *weights], weights, strict=False)]
    assert moves == pytest.approx([-rate for rate in rates])


@pytest.mark.backend
def test_averages_are_validated_but_not_trained() -> None:
    weights, logs = run("--trainer.calc_ema 0.5", [2, 2], [1])
    # w is -2, then -4; the average 0, -1, then (-1 - 4) / 2.
    assert weights == [-4.0]
    assert (logs["loss"], logs["val_loss"]) == pytest.approx((-2.0, -2.5))


@pytest.mark.parametrize(
    ("flags", "epochs"),
    [
        # The value never changes.
        ("--learning_rate.lr 0 --early_stopping.n_to_go 4", 4),
        ("--learning_rate.lr 0 --early_stopping.n_to_go 3 --early_stopping.frequency 2", 4),
        # It is 0, and nothing is counted above -1.
        ("--learning_rate.lr 0 --early_stopping.n_to_go 2 --early_stopping.upper_threshold -1", 6),
        # It falls by 1 in every epoch.
        ("--early_stopping.n_to_go 2 --early_stopping.lower_threshold -3", 3),
        # It shall grow, and falls.
        ("--model.monitor max loss/mean_epoch --early_stopping.n_to_go 3", 3),
        ("--model.monitor max loss/mean_epoch --early_stopping.n_to_go 9 --early_stopping.upper_threshold -1.5", 1),
        ("--model.monitor max loss/mean_epoch --early_stopping.n_to_go 1 --early_stopping.lower_threshold 0", 6),
    ],
)
def test_early_stopping(flags: str, epochs: int) -> None:
    weights, _ = run(f"{flags} --trainer.epochs 6", [1], [1])
    assert len(weights) == epochs


def test_epochs_of_the_validation(tmp_path: Path) -> None:
    run("--trainer.val_every_n 3 --trainer.epochs 4", [1], [1], tmp_path)
    lines = [line for line in (tmp_path / "train.log").read_text().splitlines() if "Results of epoch" in line]
    assert ["val_loss" in line for line in lines] == [False, False, True, True]


@pytest.mark.parametrize(("level", "written"), [("info", True), ("warning", False)])
def test_the_level_of_the_log(level: str, written: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger(ROOT), "level", logging.NOTSET)  # that of the environment
    monkeypatch.setenv("TFAIP_LOG_LEVEL", level)
    run("", [1], output_dir=tmp_path)
    text = (tmp_path / "train.log").read_text()
    assert ("Results of epoch 0001 distance: 0.0000 - loss: 0.0000" in text) is written
