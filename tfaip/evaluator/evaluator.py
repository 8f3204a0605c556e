"""Evaluators: metrics in plain Python on single, post-processed samples."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import numpy as np

from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.params import EvaluatorParams
from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.params.generics import type_argument
from tfaip.util.text import shorten
from tfaip.util.typing import Logs

P = TypeVar("P", bound=EvaluatorParams)


class EvaluatorBase(Generic[P]):
    """Base of evaluators, which get all predicted samples with targets and return values.

    Use it as a context: `__enter__` starts a new evaluation, `update_state` takes one sample after
    the other, `result` ends it. Override these three.

    Args:
        params: the evaluator params.
    """

    def __init__(self, params: P, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._params = params

    @classmethod
    def params_cls(cls) -> type[P]:
        """Return the params class that the evaluator was declared with."""
        return type_argument(cls, EvaluatorBase, 0)

    @property
    def params(self) -> P:
        """The params that the evaluator was built from."""
        return self._params

    def __enter__(self) -> Self:
        """Start an evaluation; reset counters here."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End an evaluation."""

    def update_state(self, sample: Sample) -> None:
        """Take one sample with `outputs` and `targets`."""

    def result(self) -> dict[str, Any]:
        """Return values by name over all samples since `__enter__`.

        Numbers are logged. A `PrecisionRecallCurve`, and images as `TensorboardWriter` takes them,
        are shown in TensorBoard. Everything else is only returned to the caller of LAV.
        """
        return {}


def result_of(evaluator: EvaluatorBase[Any]) -> dict[str, Any]:
    """Return the result of an evaluator.

    Raises:
        TypeError: if it is no dict.
    """
    result = evaluator.result()
    if not isinstance(result, dict):
        raise TypeError(
            f"{type(evaluator).__name__}.result returns {shorten(result)}, expected a dict of values by name"
        )
    return result


def scalar_results(results: Mapping[str, Any]) -> Logs:
    """Return the numbers among the results of an evaluation, by name."""
    scalars: Logs = {}
    for name, value in results.items():
        if isinstance(value, (Real, np.number)) and not isinstance(value, bool):
            scalars[name] = float(value)
    return scalars


def plots(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what TensorBoard shows among the results: precision-recall curves and images."""
    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, PrecisionRecallCurve) or np.ndim(value) in (3, 4):
            found[name] = value
    return found


Evaluator = EvaluatorBase
