"""Evaluators: metrics in plain Python on single, post-processed samples."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.params import EvaluatorParams
from tfaip.params.generics import type_argument
from tfaip.util.text import shorten

P = TypeVar("P", bound=EvaluatorParams)


class EvaluatorBase(Generic[P]):
    """Sees every predicted sample with its targets, one after the other, and returns values by name.

    Use it as a context: `__enter__` starts a new evaluation, `update_state` takes a sample, `result` ends it.

    Args:
        params: the evaluator params.
    """

    def __init__(self, params: P, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._params = params

    @classmethod
    def params_cls(cls) -> type[P]:
        """The params class that the evaluator was declared with."""
        return type_argument(cls, EvaluatorBase, 0)

    @property
    def params(self) -> P:
        """The params that the evaluator was built from."""
        return self._params

    def __enter__(self) -> Self:
        """Start an evaluation: reset counters here."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End an evaluation."""

    def update_state(self, sample: Sample) -> None:
        """Take one sample with `outputs` and `targets`."""

    def result(self) -> dict[str, Any]:
        """Values by name over all samples since `__enter__`.

        Numbers are logged. A `PrecisionRecallCurve`, and images as `TensorboardWriter` takes them, are shown in
        TensorBoard. Everything else is only returned.
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


Evaluator = EvaluatorBase
