"""Losses of weights: LAV gives what the training logs, with all layers trained, some frozen, and with penalties."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import keras
import pytest

from test.trainer.line import by_hand
from tfaip.data.data import Data
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import Spec
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.params import option
from tfaip.predict.params import LAVParams
from tfaip.scenario.scenario import Scenario
from tfaip.trainer.params import WeightPenaltyParams


class Numbers(Data):
    inputs, targets = {"x": Spec(1)}, {"y": Spec(1)}


class Three(Generator):
    """1, 2, 3, each with the target 2."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": [index + 1.0]}, targets={"y": [2.0]})


class RidgeModel(ModelBase[Any]):
    """x * 1 * 1, with an L2 of each weight."""

    loss = "mse"

    def build_model(self) -> keras.Model:
        def dense(name: str) -> keras.layers.Layer:
            l2 = keras.regularizers.L2(self.params.l2) if self.params.l2 else None
            return keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", kernel_regularizer=l2, name=name)

        x = keras.Input((1,), name="x")
        return keras.Model(x, dense("y")(dense("first")(x)))


class RidgeModelParams(ModelBaseParams, cls=":RidgeModel"):
    l2: float = option(0.1, "L2 of both layers")


class RidgeScenario(Scenario):
    data, model, train, val = Numbers, RidgeModelParams, Three(), Three()


PENALTY = [WeightPenaltyParams(match=".*kernel", l2=0.25)]


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.parametrize(
    ("l2", "fields", "loss", "expected"),
    [
        # The mean of 1, 0, 1; each L2 is that of a 1.
        (0.1, {}, 2 / 3 + 0.2, 2 / 3 + 0.2),
        (0.1, {"no_train_scope": "first"}, 2 / 3 + 0.1, 2 / 3 + 0.1),
        (0.0, {"weight_penalties": PENALTY}, 2 / 3 + 0.5, 2 / 3),  # a part of the training, not of the model
        (0.1, {"weight_penalties": PENALTY, "no_train_scope": "first"}, 2 / 3 + 0.35, 2 / 3 + 0.1),
    ],
)
def test_lav_is_what_was_logged(
    l2: float, fields: dict[str, Any], loss: float, expected: float, tmp_path: Path
) -> None:
    params = by_hand(RidgeScenario.default_trainer_params(), tmp_path / "run", lr=0.0, lav_every_n=1, **fields)
    params.scenario.model.l2, params.export_final = l2, True
    logs = RidgeScenario.create_trainer(params).train()
    assert [logs["loss"], logs["val_loss"], logs["lav_l0_loss"]] == pytest.approx([loss, expected, expected])
    assert ("val_regularization" in logs) == ("lav_l0_regularization" in logs) == (l2 > 0)
    model = tmp_path / "run" / "export"
    lav = RidgeScenario.create_lav(LAVParams(model_path=str(model), silent=True), RidgeScenario.params_from_path(model))
    (results,) = lav.run([Three()])
    assert results["loss"] == pytest.approx(expected)
    copy = shutil.copytree(model, tmp_path / "copy")
    (results,) = RidgeScenario.create_multi_lav(LAVParams(silent=True), [model, copy]).run([Three()])
    assert results[str(copy)]["loss"] == pytest.approx(expected)
