"""Params of an evaluator; needs no backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfaip.params import ParamsBase
from tfaip.util.classes import construct


class EvaluatorParams(ParamsBase, cls=".evaluator:EvaluatorBase"):
    """Params of an evaluator; it has no options by default.

    A subclass may name its evaluator: `class MyParams(EvaluatorParams, cls=".evaluator:MyEvaluator")`.
    """

    if TYPE_CHECKING:

        @staticmethod
        def cls() -> type[Any]:
            """Return the `EvaluatorBase` subclass that these params describe."""

    def create(self, **kwargs: Any) -> Any:
        """Build the evaluator."""
        return construct(self.cls(), self, **kwargs)
