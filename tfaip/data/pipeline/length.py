"""Length of a processed sample, as the data of a scenario measure it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from tfaip.data.pipeline.definitions import Sample, SampleSpecs


class SampleValues(dict[str, Any]):
    """Inputs and targets of a sample in one dict, for functions of single values.

    Args:
        sample: whose parts are also there as attributes.
    """

    def __init__(self, sample: Sample) -> None:
        super().__init__()
        self.inputs, self.targets, self.meta = sample.inputs, sample.targets, sample.meta
        for part in (sample.targets, sample.inputs):
            if isinstance(part, dict):
                self.update(part)


def sample_length(data: SampleSpecs) -> Callable[[Sample], int]:
    """Return the function that measures samples.

    `element_length_fn` may also take no sample and return the function to measure with, which gets the
    inputs and the targets in one dict.

    Args:
        data: has `element_length_fn`.
    """
    method: Any = data.element_length_fn
    parameters = inspect.signature(method).parameters.values()
    if any(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
        return data.element_length_fn
    measure = method()
    if not callable(measure):
        owner = f"{type(data).__name__}.element_length_fn"
        raise TypeError(f"{owner}() gave {measure!r}, expected a function of a sample: declare it as (self, sample)")
    return lambda sample: int(measure(SampleValues(sample)))
