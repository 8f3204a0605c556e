"""Evaluators and their params: metrics in plain Python on single, post-processed samples."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from numbers import Real
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar, get_origin

from tfaip.data.pipeline.definitions import Sample
from tfaip.params import ParamsBase
from tfaip.params.classes import Part
from tfaip.params.types import type_argument
from tfaip.util.classes import check_hook_names, construct, overrides
from tfaip.util.logging import logger
from tfaip.util.text import shorten
from tfaip.util.typing import Logs

log = logger(__name__)


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


P = TypeVar("P", bound=EvaluatorParams)
_HOOKS = ("params_cls", "__enter__", "__exit__", "update_state", "result")


class EvaluatorBase(Generic[P]):
    """Base of evaluators, which get all predicted samples with targets and return values.

    Use it as a context: `__enter__` starts a new evaluation, `update_state` takes one sample after
    the other, `result` ends it. Override these three.

    Args:
        params: the evaluator params.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_hook_names(cls, EvaluatorBase, _HOOKS)
        if overrides(cls, EvaluatorBase, "result") and not overrides(cls, EvaluatorBase, "update_state"):
            log.warning("%s.result gets no samples: define update_state(self, sample), which takes them", cls.__name__)

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


class Evaluator(EvaluatorBase[P], Part, EvaluatorParams):
    """Evaluator, params and code in one class: its annotated fields are its params.

        class Sure(Evaluator):
            threshold: float = 0.9

            def __enter__(self) -> Self:
                self.scores: list[float] = []
                return self

            def update_state(self, sample: Sample) -> None:
                self.scores.append(sample.outputs["prob"].max())

            def result(self) -> dict[str, float]:
                return {"sure": np.mean(np.array(self.scores) >= self.threshold)}

    What to override is described in `EvaluatorBase`, the rules of such classes in `Part`. A subclass
    without fields, with an `__init__` of its own, or with a type argument (`Evaluator[MyParams]`) has
    separate params, as one of `EvaluatorBase` has.
    """

    _is_created: ClassVar[bool] = True

    def __init_subclass__(part_cls, **kwargs: Any) -> None:  # noqa: N804
        part_cls._is_created = _has_own_params(part_cls)
        if part_cls._is_created:
            # Finished: what its body annotates are no fields.
            part_cls.__dataclass_fields__ = dict(EvaluatorParams.__dataclass_fields__)
        super().__init_subclass__(**kwargs)

    def __init__(self, params: P, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)

    # Those of a dataclass are for subclasses that are params.
    __eq__ = object.__eq__
    __hash__ = object.__hash__
    __repr__ = object.__repr__

    @classmethod
    def params_cls(cls) -> type[Any]:
        return super().params_cls() if cls._is_created else cls

    @property
    def params(self) -> Any:
        """The params that the evaluator was built from; params themselves are their own."""
        return vars(self).get("_params", self)

    def create(self, **kwargs: Any) -> Any:
        cls: Any = self.cls()
        return self._create(_params=self, **kwargs) if cls is type(self) else cls(self, **kwargs)


def _has_own_params(cls: type[Evaluator[Any]]) -> bool:
    """Return True for a subclass that takes separate params."""
    binds = any(get_origin(base) is not None for base in vars(cls).get("__orig_bases__", ()))
    if "__init__" in vars(cls) or binds:
        return True
    bases = [base for base in cls.__bases__ if issubclass(base, Evaluator) and base is not Evaluator]
    if bases:
        return any(base._is_created for base in bases)
    return not inspect.get_annotations(cls)


def result_of(evaluator: EvaluatorBase[Any]) -> dict[str, Any]:
    """Return the result of an evaluator."""
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
        if isinstance(value, Real) and not isinstance(value, bool):
            scalars[name] = float(value)
    return scalars


def plots(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return what TensorBoard shows among the results: precision-recall curves and images."""
    import numpy as np  # not needed by the help of a command, which imports this module

    from tfaip.evaluator.precisionrecall import PrecisionRecallCurve

    found: dict[str, Any] = {}
    for name, value in results.items():
        if isinstance(value, PrecisionRecallCurve) or np.ndim(value) in (3, 4):
            found[name] = value
    return found
