"""The sample, and the modes in which a pipeline can run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any


class PipelineMode(StrEnum):
    """What a pipeline is for. It decides which processors run and which parts a sample must have."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    PREDICTION = "prediction"
    TARGETS = "targets"


INPUT_PROCESSOR = frozenset({PipelineMode.TRAINING, PipelineMode.EVALUATION, PipelineMode.PREDICTION})
"""Modes with inputs: for processors that change the inputs."""

TARGETS_PROCESSOR = frozenset({PipelineMode.TRAINING, PipelineMode.EVALUATION, PipelineMode.TARGETS})
"""Modes with targets: for processors that change the targets."""

GENERAL_PROCESSOR = frozenset(PipelineMode)
"""All modes."""


class Sample:
    """One example on its way through a pipeline.

    The `new_*` methods return a copy in which one part is replaced; the parts themselves are not copied.

    Args:
        inputs: what the model reads: a dict of arrays when it reaches the batch; before that anything.
        outputs: what the model predicted.
        targets: what the model shall predict.
        meta: any JSON-able value; it never enters the model and is there again after it.
    """

    __slots__ = ("_invalid", "inputs", "meta", "outputs", "targets")

    def __init__(self, *, inputs: Any = None, outputs: Any = None, targets: Any = None, meta: Any = None) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.targets = targets
        self.meta = meta
        self._invalid = False

    def copy(self) -> Sample:
        """A new sample that shares all parts with this one."""
        sample = Sample.__new__(Sample)  # twice as fast as the constructor, and the most frequent call of a pipeline
        sample.inputs = self.inputs
        sample.outputs = self.outputs
        sample.targets = self.targets
        sample.meta = self.meta
        sample._invalid = self._invalid
        return sample

    def new_inputs(self, inputs: Any) -> Sample:
        """A copy with other inputs."""
        sample = self.copy()
        sample.inputs = inputs
        return sample

    def new_outputs(self, outputs: Any) -> Sample:
        """A copy with other outputs."""
        sample = self.copy()
        sample.outputs = outputs
        return sample

    def new_targets(self, targets: Any) -> Sample:
        """A copy with other targets."""
        sample = self.copy()
        sample.targets = targets
        return sample

    def new_meta(self, meta: Any) -> Sample:
        """A copy with other meta data."""
        sample = self.copy()
        sample.meta = meta
        return sample

    def new_invalid(self) -> Sample:
        """A copy that is declared invalid: the pipeline drops and counts it."""
        sample = self.copy()
        sample._invalid = True
        return sample

    def is_valid(self, mode: PipelineMode | None = None) -> bool:
        """Whether the sample may be used.

        Args:
            mode: also require the parts which this mode reads (e.g. training: inputs and targets); None
                asks only whether the sample was declared invalid.
        """
        if self._invalid:
            return False
        if self.inputs is None and mode in INPUT_PROCESSOR:
            return False
        return self.targets is not None or mode not in TARGETS_PROCESSOR

    def __repr__(self) -> str:
        parts = {name: getattr(self, name) for name in ("inputs", "outputs", "targets", "meta")}
        shown = [f"{name}={_brief(value)}" for name, value in parts.items() if value is not None]
        return f"Sample({', '.join(shown)}{', invalid' if self._invalid else ''})"


def require_sample(made: Any, origin: str) -> Sample:
    """What a user's method gave, if it is a sample.

    Raises:
        TypeError: it is something else; `origin` names the method.
    """
    if isinstance(made, Sample):
        return made
    raise TypeError(f"{origin} gave {_brief(made)}, expected a Sample")


def require_iterable(made: Any, origin: str) -> Iterable[Any]:
    """The same of a method that gives many samples."""
    if isinstance(made, Iterable) and not isinstance(made, Mapping):
        return made
    raise TypeError(f"{origin} gave {_brief(made)}, expected an iterable of samples: yield them one by one")


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_brief(item)}" for key, item in value.items()) + "}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{list(value.shape)}"
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
