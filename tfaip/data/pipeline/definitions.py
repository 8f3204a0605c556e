"""The sample, the modes of a pipeline, and what a pipeline must know of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeAlias

if TYPE_CHECKING:
    from tfaip.data.specs import TensorSpec


class PipelineMode(StrEnum):
    """Purpose of a pipeline: selects the processors that run and the parts that a sample needs."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"
    TARGETS = "targets"

    @classmethod
    def _missing_(cls, value: object) -> NoReturn:
        known = ", ".join(repr(mode.value) for mode in cls)
        raise ValueError(f"the mode of a pipeline is {value!r}, expected one of {known}")


INPUT_PROCESSOR = frozenset({PipelineMode.TRAINING, PipelineMode.EVALUATION, PipelineMode.PREDICTION})
"""Modes with inputs: for processors that change the inputs."""

TARGETS_PROCESSOR = frozenset({PipelineMode.TRAINING, PipelineMode.EVALUATION, PipelineMode.TARGETS})
"""Modes with targets: for processors that change the targets."""

GENERAL_PROCESSOR = frozenset(PipelineMode)
"""All modes."""


class Sample:
    """One example on its way through a pipeline.

    The `new_*` methods return a copy in which one part is replaced; the parts are not copied.

    Args:
        inputs: what the model reads: anything, until the last processor makes a dict of arrays of it.
        outputs: what the model predicted.
        targets: what the model should predict.
        meta: any JSON-able value; it does not enter the model and is available again after it.
    """

    __slots__ = ("_invalid", "inputs", "meta", "outputs", "targets")

    def __init__(self, *, inputs: Any = None, outputs: Any = None, targets: Any = None, meta: Any = None) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.targets = targets
        self.meta = meta
        self._invalid = False

    def copy(self) -> Sample:
        """Return a new sample that shares all parts with this one."""
        sample = Sample.__new__(Sample)  # twice as fast as the constructor, and the most frequent call of a pipeline
        sample.inputs = self.inputs
        sample.outputs = self.outputs
        sample.targets = self.targets
        sample.meta = self.meta
        sample._invalid = self._invalid
        return sample

    def new_inputs(self, inputs: Any) -> Sample:
        """Return a copy with other inputs."""
        sample = self.copy()
        sample.inputs = inputs
        return sample

    def new_outputs(self, outputs: Any) -> Sample:
        """Return a copy with other outputs."""
        sample = self.copy()
        sample.outputs = outputs
        return sample

    def new_targets(self, targets: Any) -> Sample:
        """Return a copy with other targets."""
        sample = self.copy()
        sample.targets = targets
        return sample

    def new_meta(self, meta: Any) -> Sample:
        """Return a copy with other meta data."""
        sample = self.copy()
        sample.meta = meta
        return sample

    def new_invalid(self) -> Sample:
        """Return a copy that is declared invalid: the pipeline drops and counts it."""
        sample = self.copy()
        sample._invalid = True
        return sample

    def is_valid(self, mode: PipelineMode | None = None) -> bool:
        """Return True unless the sample was declared invalid or lacks a part.

        Args:
            mode: require the parts that this mode reads, e.g. inputs and targets for training; None: no part.
        """
        if self._invalid:
            return False
        if self.inputs is None and mode in INPUT_PROCESSOR:
            return False
        return self.targets is not None or mode not in TARGETS_PROCESSOR

    def __repr__(self) -> str:
        shown = []
        for name in ("inputs", "outputs", "targets", "meta"):
            value = getattr(self, name)
            if value is not None:
                shown.append(f"{name}={_brief(value)}")
        if self._invalid:
            shown.append("invalid")
        return f"Sample({', '.join(shown)})"


class SampleGroup(Sample):
    """Samples of one batch, which a generator that yields batches gives as a list.

    They stay together on their way through the pipeline; each is processed on its own.

    Args:
        samples: the samples; the group keeps a list of its own.
    """

    __slots__ = ("samples",)

    def __init__(self, samples: Iterable[Sample]) -> None:
        super().__init__()
        self.samples = list(samples)

    def copy(self) -> Sample:
        """Return a new group of the same samples."""
        return SampleGroup(self.samples)

    def __repr__(self) -> str:
        return f"SampleGroup({self.samples!r})"


@dataclass(slots=True)
class FailedSample:
    """Error of a sample that could not be read or processed.

    Args:
        error: what happened; its notes name the sample and the processor.
        trace: the traceback in a worker process; None if it happened in this process.
    """

    error: Exception
    trace: str | None = None


Outcome: TypeAlias = Sample | FailedSample


class SampleSpecs(Protocol):
    """Protocol of the data that a pipeline reads and batches; `DataBase` implements it.

    Pipelines know only this much of the data, so that they do not depend on the class that creates them.
    """

    @property
    def params(self) -> Any:
        """Params with the processors, `pre_proc` and `post_proc`."""

    @property
    def shared_source(self) -> Any:
        """Params that have what generators declare with `shared()`."""

    def input_layer_specs(self) -> Mapping[str, TensorSpec]:
        """Return the specs of the inputs by key."""

    def target_layer_specs(self) -> Mapping[str, TensorSpec]:
        """Return the specs of the targets by key."""

    def padding_values(self) -> Mapping[str, Any]:
        """Return the padding value of each key."""

    def element_length_fn(self, sample: Sample) -> int:
        """Return the length of a processed sample."""


def require_sample(value: Any, origin: str, may_be_list: bool = False) -> Sample:
    """Return what a user's method returned, if it is a sample.

    Args:
        may_be_list: accept a list or tuple of samples too, which becomes a `SampleGroup`.

    Raises:
        TypeError: if it is something else.
    """
    if isinstance(value, Sample):
        return value
    if may_be_list and isinstance(value, list | tuple):
        return SampleGroup(require_sample(sample, f"{origin}, in a list,") for sample in value)
    raise TypeError(f"{origin} gave {_brief(value)}, expected a Sample")


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_brief(item)}" for key, item in value.items()) + "}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def noted(error: Exception, note: str) -> Exception:
    """Return an error of the code of the data with a note; an ordinary one in place of one that ends iterators."""
    if isinstance(error, StopIteration):
        failure = RuntimeError("StopIteration: the code of the data must raise an error instead")
        failure.__cause__ = error
        error = failure.with_traceback(error.__traceback__)
    error.add_note(note)
    return error
