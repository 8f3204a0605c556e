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


def test_flags_of_the_three_kinds_of_data(lists):
    a, b, c, d = (lists(name, 3) for name in "abcd")
    params = parsed("--train.lists", a, b, "--val.lists", c, "--lav.lists", d, "--train.batch_size", "2")
    assert params.gen.train_gen().lists == [a, b]
    assert params.gen.val_gen().lists == [c]
    assert [generator.lists for generator in params.gen.lav_gen()] == [[d]]
    assert (params.gen.setup.train.batch_size, params.gen.setup.val.batch_size) == (2, 16)


def test_lav_looks_at_each_list_by_itself(lists):
    a, b, c, d = (lists(name, 3) for name in "abcd")
    several = ["--train.lists", a, "--val.lists", c, d]
    assert [generator.lists for generator in parsed(*several).gen.lav_gen()] == [[c], [d]]
    params = parsed(*several, "--lav.lists", a, b, "--lav.list_ratios", "1", "2")
    assert [(generator.lists, generator.list_ratios) for generator in params.gen.lav_gen()] == [
        ([a], None),
        ([b], None),
    ]
    assert params.gen.lav.lists == [a, b]


def test_lav_defaults_to_the_validation_lists(lists):
    params = parsed("--train.lists", lists("a", 3), "--val.lists", lists("b", 3))
    assert [generator.lists for generator in params.gen.lav_gen()] == [params.gen.val.lists]


def test_without_validation_lists_there_is_no_validation(lists):
    params = parsed("--train.lists", lists("a", 3))
    assert params.gen.val_gen() is None
    assert list(params.gen.lav_gen()) == []


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


def test_a_list_without_a_sample_is_an_error(tmp_path, lists):
    params = NumbersScenario.default_trainer_params()
    params.random_seed = 1
    params.gen.train.lists = [lists("a", 20)]
    (tmp_path / "empty").write_text("# nothing\n")
    params.gen.val.lists = [str(tmp_path / "empty")]
    with pytest.raises(UsageError, match="empty names no sample: all its lines are empty or comments"):
        NumbersScenario.create_trainer(params).train()


def test_a_training_without_any_list_says_what_to_set():
    params = NumbersScenario.default_trainer_params()
    params.random_seed = 1
    with pytest.raises(UsageError, match="--train.lists"):
        NumbersScenario.create_trainer(params).train()
