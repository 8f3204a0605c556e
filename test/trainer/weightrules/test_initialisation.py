"""First values of weights by rules on their paths."""

from __future__ import annotations

import logging
from pathlib import Path

import keras
import numpy as np
import pytest

from test.params.tiny_flags import tiny_params
from test.trainer.net import CONV, HEAD, net_params, train
from tfaip.errors import UsageError
from tfaip.model.variables import variables_by_path
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.weightrules.initialisation import initialize
from tfaip.trainer.weightrules.initializers import expected_initializer, initializer_of


class Recurrent(keras.layers.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = keras.layers.LSTM(2, bias_initializer="zeros", unit_forget_bias=False)
        self.gru = keras.layers.GRU(2)
        self.dense = keras.layers.Dense(3)

    def call(self, x: object) -> object:
        return self.dense(self.lstm(x) + self.gru(x))


def initialized(rules: dict[str, str], seed: int = 7) -> dict[str, np.ndarray]:
    layer = Recurrent()
    layer(np.zeros((1, 2, 3), np.float32))
    initialize(rules, layer, seed)
    values = variables_by_path(layer).items()
    return {path: keras.ops.convert_to_numpy(v.value) for path, v in values if "seed" not in path}


@pytest.mark.backend
def test_the_forget_part_of_a_fused_bias() -> None:
    weights = initialized({".*forget.*bias": "1"})
    # The gates of Keras: input, forget, cell, output.
    assert weights["lstm/cell/bias"].tolist() == [0, 0, 1, 1, 0, 0, 0, 0]
    assert not weights["gru/cell/bias"].any()
    weights = initialized({".*reset_gate/bias": "2", ".*lstm.*bias": "3"})
    assert weights["gru/cell/bias"].tolist() == [[0, 0, 2, 2, 0, 0]] * 2
    assert weights["lstm/cell/bias"].tolist() == [3] * 8


def test_gates_of_a_convolutional_lstm() -> None:
    class Convolutional(keras.layers.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.lstm = keras.layers.ConvLSTM1D(2, 3, unit_forget_bias=False)

        def call(self, x: object) -> object:
            return self.lstm(x)

    layer = Convolutional()
    layer(np.zeros((1, 2, 5, 1), np.float32))
    initialize({".*forget_gate.*": "2"}, layer, 7)
    weights = {path: keras.ops.convert_to_numpy(v.value) for path, v in variables_by_path(layer).items()}
    assert weights["lstm/cell/bias"].tolist() == [0, 0, 2, 2, 0, 0, 0, 0]
    assert (weights["lstm/cell/kernel"] == 2).sum() == 3 * 1 * 2
    assert (weights["lstm/cell/recurrent_kernel"][..., 2:4] == 2).all()


def test_the_first_rule_that_matches_counts() -> None:
    rules = {".*forget.*bias": "1", "lstm/cell/bias": "-1", "dense": "Constant(value=0.5)", ".*kernel": "zeros"}
    weights = initialized(rules)
    assert weights["lstm/cell/bias"].tolist() == [-1, -1, 1, 1, -1, -1, -1, -1]
    assert set(weights["dense/kernel"].ravel()) == set(weights["dense/bias"]) == {0.5}
    assert not weights["lstm/cell/recurrent_kernel"].any()


@pytest.mark.backend
def test_drawn_values_are_a_function_of_seed_and_path() -> None:
    first, again = (initialized({".*kernel": "RandomNormal(stddev=0.5)"}) for _ in range(2))
    other = initialized({".*kernel": "RandomNormal(stddev=0.5)"}, seed=8)
    for path in ("lstm/cell/kernel", "gru/cell/recurrent_kernel", "dense/kernel"):
        np.testing.assert_array_equal(first[path], again[path])
        assert (first[path] != other[path]).all()
    assert not np.isin(first["lstm/cell/kernel"], first["gru/cell/kernel"]).any()


@pytest.mark.slow
def test_a_training_begins_with_them_and_lists_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    rules = {"head/kernel": "0.25", "head/bias": "VarianceScaling(scale=2.0, mode='fan_out', distribution='uniform')"}
    params = net_params(tmp_path / "run", epochs=1, param_init=rules, learning_rate=ConstantParams(lr=0.0))
    _, weights = train(params)
    assert set(weights[HEAD[1]].ravel()) == {0.25}
    assert weights[HEAD[0]].any()
    table = [line for line in caplog.messages if line.startswith("  head/") or line.startswith("  encoder/scale")]
    assert [line.split() for line in table[:2]] == [
        ["encoder/scale", "scalar", "by", "its", "layer"],
        [
            "head/bias",
            "1",
            *["VarianceScaling(scale=2.0,", "mode='fan_out',", "distribution='uniform')", "(head/bias)"],
        ],
    ]
    # What was trained stays when a run is resumed.
    params.learning_rate, params.epochs = ConstantParams(lr=0.1), 2
    _, trained = train(params, restore=True)
    assert (trained[HEAD[1]] != 0.25).all()
    # A warm start comes after the rules.
    rules = {"head/kernel": "0.5", "encoder/conv/0/kernel": "0.5"}
    warm = net_params(epochs=1, param_init=rules, learning_rate=ConstantParams(lr=0.0))
    warm.warmstart.model, warm.warmstart.include = [str(tmp_path / "run" / "checkpoint")], "head/.*"
    _, warmed = train(warm)
    np.testing.assert_array_equal(warmed[HEAD[1]], trained[HEAD[1]])
    assert set(warmed[CONV[1]].ravel()) == {0.5}


def test_weights_that_their_layer_does_not_train_are_left_alone() -> None:
    layer = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2, name="a"), keras.layers.Dense(2, name="b")])
    layer.get_layer("a").trainable = False
    before = [keras.ops.convert_to_numpy(weight) for weight in layer.get_layer("a").weights]
    initialize({".*": "7"}, layer, 1)
    for weight, value in zip(layer.get_layer("a").weights, before, strict=True):
        np.testing.assert_array_equal(keras.ops.convert_to_numpy(weight), value)
    assert all((keras.ops.convert_to_numpy(weight) == 7).all() for weight in layer.get_layer("b").weights)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"heads": "1"}, "--trainer.param_init 'heads' matches no weight; it must match a whole path"),
        ({"head/bias": "identity"}, r"param_init\['head/bias'\] is 'identity', expected an initializer of weights of"),
    ],
)
def test_a_rule_that_cannot_work_is_refused(rules: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        train(net_params(epochs=1, param_init=rules))


@pytest.mark.parametrize(
    "text", ["nope", "Custom(name='os:system')", "RandomNormal(stddev=-1)", "Constant(value=f())", "__import__('os')"]
)
def test_what_is_no_initializer_is_refused(text: str) -> None:
    assert expected_initializer(text) is not None
    with pytest.raises(ValueError, match=r"^param_init\['.\*'\] is .*, expected a number, or an initializer"):
        type(net_params())(param_init={".*": text})


def test_what_is_one() -> None:
    assert initializer_of("-1.5").described() == "Constant(value=-1.5)"
    assert initializer_of(" glorot_uniform ").described() == "GlorotUniform()"
    assert initializer_of("Orthogonal(gain=2.0)").described() == "Orthogonal(gain=2.0)"


def test_from_the_command_line() -> None:
    params = tiny_params("--trainer.param_init", ".*kernel=glorot_normal", ".*bias=1")
    assert params.param_init == {".*kernel": "glorot_normal", ".*bias": "1"}
