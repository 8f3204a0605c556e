"""Processors of the tutorial, which change a sample between the generator and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfaip import Processor, Sample, option
from tfaip.data.pipeline.definitions import INPUT_PROCESSOR

if TYPE_CHECKING:  # `--help` imports this module and needs no arrays
    import numpy as np


class Normalize(Processor, modes=INPUT_PROCESSOR):
    """Scaling of brightness values to [0, 1] as float32, in every mode with inputs, also in prediction."""

    white: float = option(255.0, "Brightness that becomes 1 (black becomes 0)", low=1e-6)

    def apply(self, sample: Sample) -> Sample:
        image = sample.inputs["img"].astype("float32") / self.white
        return sample.new_inputs({**sample.inputs, "img": image})


class RandomShift(Processor, modes="training"):
    """Augmentation: shift some training images a little, other ones in each pass.

    Images are shifted down and right by random numbers in [-max_shift, max_shift]. All of them come
    from `rng`, so equal seeds give equal images, with any number of workers and after a resume.
    """

    max_shift: int = option(1, "Maximum shift in pixels", low=0)
    share: float = option(0.25, "Share of the images to shift, in [0, 1]", low=0, high=1)

    def apply(self, sample: Sample, rng: np.random.Generator) -> Sample:
        if rng.random() >= self.share:
            return sample
        image = sample.inputs["img"]
        limit = min(self.max_shift, *image.shape[:2])
        down, right = rng.integers(-limit, limit, size=2, endpoint=True)
        return sample.new_inputs({**sample.inputs, "img": shift(image, down, right)})


def shift(image: np.ndarray[Any, Any], down: int, right: int) -> np.ndarray[Any, Any]:
    """Return the image (`[height, width, ...]`) shifted by at most its size; new pixels are 0."""
    height, width = image.shape[:2]
    shifted = image.copy()
    shifted[...] = 0
    source = image[max(-down, 0) : height - max(down, 0), max(-right, 0) : width - max(right, 0)]
    shifted[max(down, 0) : height - max(-down, 0), max(right, 0) : width - max(-right, 0)] = source
    return shifted
