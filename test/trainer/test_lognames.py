"""Names of logged values stay when a model gets more outputs, losses or metrics."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import pytest
from keras import ops

from test.trainer.line import LineGraph, LineModel, LineModelParams, LineTrainerParams, line_params, train
from tfaip.model.graphbase import GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.params import pai_dataclass
from tfaip.trainer.history import EpochRecord, read_history
from tfaip.util.typing import Tensor, TensorDict

pytestmark = pytest.mark.backend


@pai_dataclass
@dataclass
class WiderModelParams(LineModelParams):
    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return WiderModel

    def graph_cls(self) -> type[GraphBase[Any]]:
        return WiderGraph


class WiderGraph(LineGraph):
    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        outputs = super().build_graph(inputs, training)
        return {"another": 2.0 * outputs["y"], **outputs}


class WiderModel(LineModel):
    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.another = keras.metrics.MeanSquaredError(name="another_distance")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"another": ops.abs(outputs["another"]), **super()._loss(inputs, targets, outputs)}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.another(targets["y"], outputs["another"]), *super()._metric(inputs, targets, outputs)]


def recorded(params: LineTrainerParams) -> EpochRecord:
    train(params)
    return read_history(Path(params.output_dir or "") / "history.json")[2]


def test_what_is_added_renames_nothing(tmp_path: Path) -> None:
    narrow = line_params([1.0, 2.0], [1.0], tmp_path / "narrow", epochs=2)
    wide = line_params([1.0, 2.0], [1.0], tmp_path / "wide", epochs=2, loss_weights={"another": 0.0})
    wide.scenario.model = WiderModelParams()
    before, after = recorded(narrow).values, recorded(wide).values
    assert sorted(before) == ["distance", "loss", "loss/mean_epoch", "val_distance", "val_loss", "val_loss/mean_epoch"]
    # The other loss counts nothing in the sum, so that the values are the same, too.
    assert {name: after[name] for name in before} == before
    added = {"another", "another_distance"}
    assert after.keys() - before.keys() == added | {f"val_{name}" for name in added}
