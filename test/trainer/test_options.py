"""Training options, each with its effect on a real run."""

from __future__ import annotations

import keras
import numpy as np
import pytest

from test.support.tiny.scenario import TinyScenario
from test.trainer.line import CallbackOf
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.trainer.best import EarlyStoppingParams
from tfaip.trainer.optimizer import AdamOptimizer, SGDOptimizer
from tfaip.trainer.scheduler import ConstantParams


def tiny_params(**kwargs):
    params = TinyScenario.default_trainer_params()
    params.epochs, params.random_seed = 3, 7
    params.export_best = params.export_final = False
    params.scenario.export_serve = False
    for name, value in kwargs.items():
        setattr(params, name, value)
    return params


def train(params):
    """Logs of all epochs, of the training and of the validation, and the final raw weights."""
    logs = []
    trainer = TinyScenario.create_trainer(params)
    trainer.train([CallbackOf(on_epoch_end=lambda epoch, values: logs.append(dict(values)))])
    parts = [
        [{n: v for n, v in epoch.items() if n.startswith("val_") is val} for epoch in logs] for val in (False, True)
    ]
    return *parts, variable_arrays(variables_by_path(trainer.scenario.graph))


def without_dropout(params, batch_size):
    params.scenario.model.dropout = 0.0
    params.gen.setup.train.batch_size = batch_size
    return params


@pytest.mark.guard
def test_an_average_changes_the_validation_but_not_the_training():
    plain, plain_validation, plain_weights = train(tiny_params())
    averaged, validation, weights = train(tiny_params(calc_ema=0.9))
    assert averaged == plain
    assert validation != plain_validation
    for name, weight in plain_weights.items():
        np.testing.assert_array_equal(weights[name], weight)


@pytest.mark.guard
@pytest.mark.parametrize(("optimizer", "tolerance"), [(SGDOptimizer(), 1e-6), (AdamOptimizer(), 1e-5)])
@pytest.mark.backend
def test_three_batches_of_eight_are_one_of_twenty_four(optimizer, tolerance):
    # 24 of 30 samples per epoch: the sums run in another order, so float32 results differ in the last bits.
    accumulated = without_dropout(tiny_params(optimizer=optimizer, train_accum_steps=3, samples_per_epoch=24), 8)
    whole = without_dropout(tiny_params(optimizer=optimizer, samples_per_epoch=24), 24)
    (*got, got_weights), (*expected, expected_weights) = train(accumulated), train(whole)
    for got_epoch, expected_epoch in zip(sum(got, []), sum(expected, []), strict=True):
        assert got_epoch == pytest.approx(expected_epoch, rel=tolerance, abs=tolerance)
    for name, weight in expected_weights.items():
        np.testing.assert_allclose(got_weights[name], weight, rtol=tolerance, atol=tolerance)


@pytest.mark.guard
def test_the_status_of_early_stopping_can_be_read_and_survives_a_resume(tmp_path):
    def params(epochs):
        return tiny_params(
            epochs=epochs,
            learning_rate=ConstantParams(lr=0.0),
            early_stopping=EarlyStoppingParams(n_to_go=5, best_model_name="finest"),
            output_dir=str(tmp_path / "run"),
            export_best=True,
        )

    class Seen(keras.callbacks.Callback):
        def __init__(self, of):
            super().__init__()
            self.of, self.n = of, []

        def on_train_begin(self, logs=None):
            self.n.append(self.of.n)

        def on_epoch_end(self, epoch, logs=None):
            self.n.append(self.of.n)
            assert (self.of.mode, self.of.monitor) == ("min", "val_loss/mean_epoch")
            assert self.of.current == logs["val_loss"]

    counted = []
    for epochs, restore in ((2, False), (9, True)):
        run = params(epochs)
        trainer = TinyScenario.create_trainer(run, restore=restore)
        seen = Seen(trainer.params.early_stopping)
        trainer.train([seen])
        counted.append(seen.n)
        assert trainer.early_stopping.n == seen.n[-1]
        assert (run.early_stopping.monitor, run.early_stopping.n) == (None, 0)
    assert counted == [[0, 1, 2], [2, 3, 4, 5]]
    assert (tmp_path / "run" / "finest" / "weights.safetensors").is_file()
    assert not (tmp_path / "run" / "best").exists()
