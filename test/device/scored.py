"""The tiny scenario with an evaluator that returns all that an evaluator may, and with a graph of our own layers."""

from typing import Any, Self

import keras
import numpy as np

from test.support.tiny.model import TinyGraph, TinyModel
from test.support.tiny.scenario import TinyGenerator, TinyModelParams, TinyScenario
from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import EvaluatorBase, EvaluatorParams
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.layers.specaugment import SpecAugment
from tfaip.layers.stochasticdepth import StochasticDepth
from tfaip.util.typing import Tensor, TensorDict


class RandomLayersParams(TinyModelParams):
    def graph_cls(self) -> type:
        return RandomLayersGraph


class RandomLayersGraph(TinyGraph):
    """Masks, and a branch that is dropped at random."""

    def __init__(self, params: RandomLayersParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.augment = SpecAugment(1, 2, 1, 2, time_warp=1)
        self.block = StochasticDepth(keras.layers.Dense(params.units, activation="relu"), 0.5)

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        frames = keras.ops.repeat(inputs["x"][..., None], 3, axis=2)
        x = keras.ops.reshape(self.augment(frames, training=training), (-1, 12))
        return {"y": self.out(self.block(self.hidden(x), training=training))}


class Holed(TinyGenerator):
    """The same points, but the sixth input is not a number."""

    def load(self) -> Sample:
        points = super().load()
        points.inputs["x"][5, 0] = np.nan
        return points


class NormalizedParams(TinyModelParams, cls=":ScalarLossModel"):
    def graph_cls(self) -> type:
        return NormalizedGraph


class ScalarLossModel(TinyModel):
    """A loss that is one number for the batch, and a metric that is no mean."""

    def __init__(self, params: NormalizedParams) -> None:
        super().__init__(params)
        self.score = keras.metrics.R2Score(name="r2")

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"mse": keras.ops.mean(keras.ops.square(targets["y"] - outputs["y"]))}

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        return [self.error(targets["y"], outputs["y"]), self.score(targets["y"], outputs["y"])]


class LossObjectParams(TinyModelParams, cls=":LossObjectModel"):
    pass


class LossObjectModel(TinyModel):
    """A loss of Keras in a `_loss` of its own, which Keras divides by the replicas."""

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        return {"mse": keras.losses.MeanSquaredError()(targets["y"], outputs["y"])}


class NormalizedGraph(TinyGraph):
    """Normalized over the whole batch."""

    def __init__(self, params: NormalizedParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        # JAX always takes the whole batch, and refuses the argument.
        self.normalize = keras.layers.BatchNormalization(synchronized=keras.backend.backend() == "tensorflow")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.out(self.normalize(self.hidden(inputs["x"]), training=training))}


class Distance(EvaluatorBase[EvaluatorParams]):
    """How far the outputs are from their targets. It refuses to work in another process than the chief."""

    def __enter__(self) -> Self:
        if keras.backend.backend() == "jax":
            import jax

            if jax.process_index():
                raise RuntimeError("post-processing and evaluation are work of the chief")
        self._distances: list[float] = []
        return self

    def update_state(self, sample: Sample) -> None:
        self._distances.append(float(np.abs(sample.outputs["y"] - sample.targets["y"]).item()))

    def result(self) -> dict[str, Any]:
        distances = np.asarray(self._distances)
        return {
            "distance": np.float32(distances.mean()),
            "curve": PrecisionRecallCurve.of(distances > 0.5, np.minimum(distances, 1), 3),
            "unit": "metre",
        }


class ScoredScenario(TinyScenario):
    """As the tiny one."""

    @classmethod
    def evaluator_cls(cls) -> type[Distance]:
        return Distance
