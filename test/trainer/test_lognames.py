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
from tfaip.trainer.history import EpochRecord
from tfaip.trainer.historyreading import read_history
from tfaip.util.typing import Tensor, TensorDict


@pai_dataclass
@dataclass
class WiderModelParams(LineModelParams):
    """With `is_wide` there are one more output, one more loss and one more metric; they come first."""

    is_wide: bool = False

    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return WiderModel

    def graph_cls(self) -> type[GraphBase[Any]]:
        return WiderGraph


class WiderGraph(LineGraph):
    params: WiderModelParams

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        outputs = super().build_graph(inputs, training)
        return {"another": 2.0 * outputs["y"], **outputs} if self.params.is_wide else outputs


class WiderModel(LineModel):
    params: WiderModelParams

    def __init__(self, params: LineModelParams) -> None:
        super().__init__(params)
        self.another = keras.metrics.MeanSquaredError(name="another_distance")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        losses = {"first": ops.square(outputs["y"] - targets["y"])}
        return {"another": ops.abs(outputs["another"]), **losses} if self.params.is_wide else losses

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        metrics = super()._metric(inputs, targets, outputs)
        return [self.another(targets["y"], outputs["another"]), *metrics] if self.params.is_wide else metrics


def recorded(params: LineTrainerParams) -> EpochRecord:
    train(params)
    return read_history(Path(params.output_dir or "") / "history.json")[2]


@pytest.mark.slow
def test_what_is_added_renames_nothing(tmp_path: Path) -> None:
    narrow = line_params([1.0, 2.0], [1.0], tmp_path / "narrow", epochs=2)
    wide = line_params([1.0, 2.0], [1.0], tmp_path / "wide", epochs=2, loss_weights={"another": 0.0})
    narrow.scenario.model, wide.scenario.model = WiderModelParams(start=1.0), WiderModelParams(start=1.0, is_wide=True)
    before, after = recorded(narrow).values, recorded(wide).values
    names = {"distance", "first", "loss", "loss/mean_epoch"}
    assert before.keys() == names | {f"val_{name}" for name in names}
    # The other loss counts nothing in the sum, so that the values are the same, too.
    assert {name: after[name] for name in before} == before
    added = {"another", "another_distance"}
    assert after.keys() - before.keys() == added | {f"val_{name}" for name in added}
