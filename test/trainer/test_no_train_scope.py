"""`trainer.no_train_scope`: what it freezes stays as it is, bit for bit, and costs no optimizer slots."""

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from test.trainer.net import (
    CONV,
    ENCODER,
    HEAD,
    LAYERS,
    STATISTICS,
    NetScenario,
    changed,
    net_params,
    train,
    weights_of,
)
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weightrules import path_matches
from tfaip.model.weights import load_arrays
from tfaip.trainer.optimizer import AdamOptimizer
from tfaip.trainer.scheduler import ConstantParams


@cache
def initial() -> dict[str, np.ndarray]:
    """The weights that every run of these tests begins with."""
    return train(net_params(epochs=1, no_train_scope="encoder", learning_rate=ConstantParams(lr=0.0)))[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "frozen"),
    [
        (".*conv.*", CONV),
        # the list that holds the layers
        ("encoder", ENCODER),
        ("head|encoder/norm", ["encoder/norm/beta", "encoder/norm/gamma", *STATISTICS, *HEAD]),
    ],
)
def test_frozen_layers_stay_and_all_others_move(pattern: str, frozen: list[str]) -> None:
    optimizer = AdamOptimizer(weight_decay=0.1)
    _, weights = train(net_params(no_train_scope=pattern, optimizer=optimizer, calc_ema=0.5))
    assert changed(weights, initial()) == sorted(set(ENCODER + HEAD) - set(frozen))


def test_a_pattern_matches_a_whole_path_or_that_of_something_above() -> None:
    for pattern, matching, other in [
        ("encoder", ["encoder", "encoder/conv/0/kernel"], ["my_encoder/kernel"]),
        ("encoder/conv", ["encoder/conv/0/kernel"], []),
        (".*conv.*", ["encoder/conv/0"], []),
        ("conv", [], ["encoder/conv/0"]),
        ("a|b", ["b/kernel"], ["ab"]),
        ("", [], ["kernel"]),
    ]:
        assert [path for path in (*matching, *other) if path_matches(re.compile(pattern), path)] == matching


def test_what_is_no_pattern_is_refused_before_anything_is_built() -> None:
    for pattern, reason in (("[a", "unterminated"), ("(" * 2000 + ")" * 2000, "maximum recursion")):
        with pytest.raises(ValueError, match="^no_train_scope is .* expected a regular expression ") as error:
            type(net_params())(no_train_scope=pattern)  # a warning would fail the test
        assert f"a regular expression ({reason}" in str(error.value)
        assert len(str(error.value)) < 300


@pytest.mark.slow
def test_another_training_of_the_same_scenario_freezes_anew() -> None:
    trainer = NetScenario.create_trainer(net_params(epochs=1, no_train_scope="encoder|head"))
    trainer.scenario.graph.encoder.conv[1].trainable = False  # by whoever wrote the scenario
    with pytest.raises(UsageError, match=r"no weight is trained .*, or --trainer.no_train_scope matches all"):
        trainer.train()
    for pattern in ("conv", "Encoder"):
        trainer.params.no_train_scope = pattern
        with pytest.raises(UsageError) as caught:
            trainer.train()
        assert str(caught.value) == (
            f"--trainer.no_train_scope {pattern!r} matches no layer; it must match a whole path, e.g. '.*conv.*'; "
            f"the layers are {', '.join(LAYERS)}"
        )
    trainer.params.no_train_scope = "head"
    trainer.train()
    before = weights_of(trainer)
    trainer.params.no_train_scope = None
    trainer.train()
    assert changed(weights_of(trainer), before) == sorted({*ENCODER, *HEAD} - {*CONV[2:]})


@pytest.mark.slow
@pytest.mark.backend
def test_frozen_weights_have_no_slots_but_are_stored_and_exported(tmp_path: Path) -> None:
    logs, _ = train(net_params(tmp_path / "run", no_train_scope="encoder", epochs=1))
    assert logs["regularization"] == 0 < train(net_params(epochs=1))[0]["regularization"]
    with pytest.raises(TfaipError, match="the checkpoint does not fit the model: missing .*optimizer/"):
        train(net_params(tmp_path / "run", no_train_scope="head", epochs=2), restore=True)
    assert "no_train_scope 'encoder' freezes encoder" in (tmp_path / "run" / "train.log").read_text()
    arrays = load_arrays(tmp_path / "run" / "checkpoint" / "epoch_0001" / "state.safetensors")
    slots = {name for name in arrays if name.startswith("optimizer/") and name.count("/") > 1}
    assert slots == {f"optimizer/{kind}/{path}" for kind in ("momentum", "velocity") for path in HEAD}
    stored = {name.removeprefix("weights/") for name in arrays if name.startswith("weights/")}
    exported = load_arrays(tmp_path / "run" / "export" / "weights.safetensors")
    assert stored == set(exported)
    assert stored >= set(ENCODER + HEAD)
    for path in ENCODER:
        np.testing.assert_array_equal(exported[path], initial()[path])


@pytest.mark.slow
@pytest.mark.backend
def test_a_frozen_normalisation_runs_in_inference_mode() -> None:
    # Nothing is trained with rate 0, and training and validation data are the same: only the mode differs.
    def losses(pattern: str) -> tuple[float, float]:
        params = net_params(no_train_scope=pattern, learning_rate=ConstantParams(lr=0.0), epochs=1)
        params.scenario.data.pre_proc.processors = []
        params.gen.val = params.gen.train
        params.samples_per_epoch, params.gen.setup.train.batch_size = 30, 10
        params.scenario.model.dropout = 0.0
        logs, _ = train(params)
        return logs["mse"], logs["val_mse"]

    train_loss, val_loss = losses("encoder/norm")
    assert train_loss == pytest.approx(val_loss, rel=1e-5)
    train_loss, val_loss = losses("head")
    assert train_loss != pytest.approx(val_loss, rel=1e-2)
