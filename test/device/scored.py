"""The tiny scenario with an evaluator that returns all that an evaluator may: NumPy numbers, a curve, text."""

from __future__ import annotations

from typing import Any, Self

import keras
import numpy as np

from test.support.tiny.scenario import TinyScenario
from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import EvaluatorBase
from tfaip.evaluator.params import EvaluatorParams
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve


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
