"""Batches whose shapes do not fit, which is seen when the step runs: the loss or metric that failed is named."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.trainer.line import LineModelParams, by_hand
from tfaip.data.data import Data
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import Spec
from tfaip.model.graphbase import GraphBase
from tfaip.model.losses import ShapeError
from tfaip.model.modelbase import ModelBase
from tfaip.scenario.scenario import Scenario
from tfaip.util.typing import Tensor, TensorDict


class Pairs(Data):
    inputs = {"x": Spec(None)}
    targets = {"y": Spec(None), "z": Spec(None)}


class Lengths(Generator):
    """Samples of which `wrong` has another length the second time."""

    wrong: str = ""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Sample:
        x, y, z = (np.ones(5 if index and name == self.wrong else 3) for name in "xyz")
        return Sample(inputs={"x": x}, targets={"y": y, "z": z})


class Scaled(GraphBase[Any]):
    def __init__(self, params: Any, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.line = keras.layers.Dense(1)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.line(inputs["x"][..., None])[..., 0]}


class PairsModel(ModelBase[Any]):
    def __init__(self, params: Any) -> None:
        super().__init__(params)
        self.error = keras.metrics.MeanAbsoluteError(name="error")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"square": ops.square(outputs["y"] - targets["y"])}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.error(targets["z"], outputs["y"])]


class PairsModelParams(LineModelParams, cls=PairsModel, graph_cls=Scaled):
    pass


class PairsScenario(Scenario):
    data, model, train, val = Pairs, PairsModelParams, Lengths(), Lengths()


@pytest.mark.parametrize(
    ("part", "wrong", "place"),
    [
        pytest.param("train", "y", "PairsModel._loss", marks=pytest.mark.backend),
        ("val", "z", "PairsModel._metric"),
    ],
)
def test_the_loss_or_metric_is_named(part: str, wrong: str, place: str) -> None:
    params = by_hand(PairsScenario.default_trainer_params(), None, epochs=1)
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 1
    setattr(params.gen, part, Lengths(wrong=wrong))
    with pytest.raises(ShapeError) as caught:
        PairsScenario.create_trainer(params).train()
    text = " ".join(str(caught.value).split())
    known = ["1, 3", "1, 5"] if keras.backend.backend() == "jax" else ["None, None"] * 2
    y, z = (known[-1] if name == wrong else known[0] for name in "yz")
    assert text.endswith(f"(in {place}; targets: y ({y}), z ({z}); outputs: y ({known[0]}))")
    assert "5" in text.partition("(in ")[0]
