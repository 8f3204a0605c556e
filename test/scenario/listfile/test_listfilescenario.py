"""Scenarios with list files."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from test.support.fuzz.lists_scenario import NumbersScenario, NumbersTrainerParams
from tfaip.errors import UsageError
from tfaip.params.commandline import ParamsParser


@pytest.fixture
def lists(tmp_path):
    def write(name, rows):
        path = tmp_path / name
        lines = [" ".join(f"{v:.3f}" for v in row) for row in np.random.default_rng(rows).normal(size=(rows, 4))]
        path.write_text("\n".join(["# a comment", *lines]))
        return str(path)

    return write


def parsed(*argv):
    parser = ParamsParser(prog="test")
    parser.add_params("trainer", NumbersTrainerParams, default=NumbersScenario.default_trainer_params())
    return parser.parse(["--trainer.output_dir", "unused", *argv]).trainer


@pytest.mark.parametrize(
    ("flags", "val", "lav"),
    [
        ("--val.lists c d", ["c", "d"], [["c"], ["d"]]),  # by default those of the validation, each by itself
        ("--val.lists c --lav.lists a b --lav.list_ratios 1 2", ["c"], [["a"], ["b"]]),
        ("", None, []),
    ],
)
def test_flags_of_the_three_kinds_of_data(flags, val, lav):
    params = parsed("--train.lists", "a", "b", "--train.batch_size", "2", *flags.split())
    assert params.gen.train_gen().lists == ["a", "b"]
    generator, generators = params.gen.val_gen(), list(params.gen.lav_gen())
    assert (None if generator is None else generator.lists) == val
    assert [(one.lists, one.list_ratios) for one in generators] == [(lists, None) for lists in lav]
    assert (params.gen.setup.train.batch_size, params.gen.setup.val.batch_size) == (2, 16)


def test_a_training_on_lists(lists):
    params = NumbersScenario.default_trainer_params()
    params.scenario.export_serve = False
    params.gen.train.lists = [lists("a", 20), lists("b", 12)]
    params.gen.val.lists = [lists("c", 5)]
    params.gen.lav.lists = [lists("d", 7), lists("c", 5)]
    params.epochs, params.random_seed, params.lav_every_n = 2, 1, 1
    updates = []

    class Updates(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            updates.append(int(self.model.optimizer.iterations))

    logs = NumbersScenario.create_trainer(params).train([Updates()])
    assert updates == [2, 4]  # 32 samples in batches of 16
    assert {"val_mse", "lav_l0_mse", "lav_l1_mse"} <= set(logs)
    # The second list is that of the validation.
    assert logs["lav_l1_mse"] == pytest.approx(logs["val_mse"], rel=1e-6)
    assert logs["lav_l0_mse"] != pytest.approx(logs["val_mse"], rel=1e-6)


def test_a_training_without_lists_says_what_to_set():
    params = NumbersScenario.default_trainer_params()
    params.random_seed = 1
    with pytest.raises(UsageError, match="--train.lists"):
        NumbersScenario.create_trainer(params).train()
