"""A run that is resumed from any of its checkpoints ends as it did, bit for bit, whatever its state consists of."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.runs import assert_same_run, history, printed_epochs

pytestmark = pytest.mark.guard

Run = Callable[..., tuple[int, str, str]]
TINY = "test.support.tiny"
SEQUENCES = "test.support.sequences"
SHARDS = "test.guards.stream:ShardsScenario"
BACKEND = pytest.mark.backend
SCHEDULES = [
    *("--schedules", "Schedule", "Schedule", "--schedules.0.target", "graph.dropout.rate", "--schedules.0.points"),
    *("0=0", "2=0.5", "--schedules.1.target", "train.batch_size", "--schedules.1.points", "0=4", "1=6"),
    *("--schedules.1.interpolation", "step", "--learning_rate", "WarmupCosineDecay"),
    *("--learning_rate.step_function", "False", "--learning_rate.warmup_epochs", "1"),
]
# The first rate is too high: epoch 2 is worse, so epoch 3 has half the rate and begins with the weights of epoch 1.
CONTROL = [
    *("--learning_rate", "NewbobRel", "--learning_rate.restore_best", "True", "--learning_rate.lr", "0.1"),
    *("--early_stopping.n_to_go", "9", "--optimizer", "SGD", "--optimizer.momentum", "0.5"),
]
STAGES = ["--stages", "small=TrainStage", "--stages.small.epochs", "1", "--stages.small.overrides", "model.units=3"]
AVERAGES = [
    *("--trainer.calc_ema", "0.9", "--trainer.train_accum_steps", "3"),
    *("--optimizer.gradient_noise.stddev", "0.1", "--optimizer.clip_global_norm", "0.3"),
]
FAILING = [
    *("--train.on_error", "skip", "--data.pre_proc.processors.0.fail_rate", "0.1"),
    *("--data.pre_proc.processors.0.drop_rate", "0.1"),
]


@pytest.mark.parametrize(
    ("scenario", "flags"),
    [
        pytest.param(TINY, [], id="Adam, dropout", marks=BACKEND),
        pytest.param(TINY, AVERAGES, id="averages, accumulated gradients, noise", marks=BACKEND),
        pytest.param(TINY, CONTROL, id="rate control, best, early stopping", marks=BACKEND),
        pytest.param(SEQUENCES, SCHEDULES, id="schedules", marks=BACKEND),
        pytest.param(TINY, STAGES, id="stages", marks=BACKEND),
        pytest.param(TINY, ["--train.num_processes", "2"], id="workers"),
        pytest.param(TINY, ["--trainer.preload_data", "True"], id="preload"),
        pytest.param(SHARDS, [], id="shards"),
        pytest.param(SEQUENCES, FAILING, id="samples that fail"),
    ],
)
def test_from_checkpoints_between_and_within_epochs(scenario: str, flags: list[str], run: Run, tmp_path: Path) -> None:
    whole, copy = tmp_path / "run", tmp_path / "copy"
    epochs = 3 if flags is CONTROL else 2
    always = ["--trainer.random_seed", "7", "--trainer.epochs", epochs, "--trainer.skip_model_load_test", "True"]
    saved = ["--trainer.checkpoint_save_freq", "3", "--trainer.keep_checkpoints", "9"]
    code, _, err = run("train", scenario, "--trainer.output_dir", whole, *always, *saved, *flags)
    assert code == 0, err
    if flags is CONTROL:
        assert [record["lr"] for record in history(whole).values()] == [0.1, 0.1, 0.05]
    within = sorted(path.name for path in (whole / "checkpoint").glob("epoch_0001_step_*"))
    for checkpoint in ("epoch_0001", within[0]):
        shutil.copytree(whole, copy)
        code, out, err = run("resume_training", copy / "checkpoint" / checkpoint)
        assert code == 0, err
        assert printed_epochs(out) == [*range(2, epochs + 1)]
        assert_same_run(copy, whole)
        shutil.rmtree(copy)
