"""SpecAugment as a processor: masks and a time warp on single samples, in data workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.processor.dataprocessor import Processor
from tfaip.params.fields import option

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SpecAugmentProcessor(Processor, modes="training"):
    """SpecAugment (Park et al., 2019) on an input `[time, frequency, ...]`, as the layer `SpecAugment` defines it."""

    key: str = option("", "Input that is augmented (empty: the one that gives the length of a sample)")
    freq_masks: int = option(2, "Number of frequency masks", low=0)
    freq_width: int = option(27, "Largest width of a frequency mask, in channels", low=0)
    time_masks: int = option(2, "Number of time masks", low=0)
    time_width: int = option(100, "Largest width of a time mask, in frames", low=0)
    time_share: float = option(1.0, "Largest width of a time mask as a share of the frames", low=0, high=1)
    time_warp: float = option(80.0, "Largest distance of the time warp, in frames (0: none)", low=0)
    value: float = option(0.0, "Value of masked elements")

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        key = self._key(sample.inputs)
        array = _warp(np.asarray(sample.inputs[key]), self.time_warp, rng)
        frames, channels = array.shape[:2]
        widest = min(self.time_width, int(self.time_share * frames))
        for start, stop in _draw_masks(self.time_masks, widest, frames, rng):
            array[start:stop] = self.value
        for start, stop in _draw_masks(self.freq_masks, min(self.freq_width, channels), channels, rng):
            array[:, start:stop] = self.value
        return sample.new_inputs({**sample.inputs, key: array})

    def _key(self, inputs: Any) -> str:
        """Return the name of the input.

        Raises:
            ValueError: if the sample has no such input, or it has no two axes.
        """
        key = self.key or getattr(self.data_params, "length_of", None)
        if key not in inputs:
            raise ValueError(f"SpecAugmentProcessor.key is {key!r}, the sample has {', '.join(map(repr, inputs))}")
        if np.ndim(inputs[key]) < 2:
            raise ValueError(
                f"the input {key!r} has the shape {np.shape(inputs[key])}, expected [time, frequency, ...]"
            )
        return str(key)


def _draw_masks(count: int, widest: int, size: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Return start and stop of each mask."""
    if size == 0:
        return []
    widths = rng.integers(0, widest, count, endpoint=True)
    starts = rng.integers(0, np.maximum(size - widths, 1))
    return list(zip(starts.tolist(), (starts + widths).tolist(), strict=True))


def _warp(array: NDArray[Any], distance: float, rng: np.random.Generator) -> NDArray[Any]:
    """Return a copy of `[time, ...]` that is warped in time, of the same type."""
    last = len(array) - 1
    if not 0 < 2 * distance < last:
        return array.copy()
    source = rng.uniform(distance, last - distance)
    target = source + rng.uniform(-distance, distance)
    positions = np.interp(np.arange(last + 1), [0, target, last], [0, source, last])
    lower = np.minimum(positions.astype(int), last - 1)
    share = (positions - lower).reshape(-1, *(1 for _ in array.shape[1:]))
    warped = (1 - share) * array[lower] + share * array[lower + 1]
    if np.issubdtype(array.dtype, np.integer):
        warped = np.rint(warped)
    return warped.astype(array.dtype)
