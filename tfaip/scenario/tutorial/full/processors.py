"""What happens to a sample between the generator and the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfaip.data.pipeline.definitions import INPUT_PROCESSOR, PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.params import pai_dataclass, pai_meta


@pai_dataclass
@dataclass
class NormalizeParams(DataProcessorParams):
    """Turn brightness values into small numbers. Needed wherever there are inputs, also in prediction."""

    modes: set[PipelineMode] = field(
        default_factory=lambda: set(INPUT_PROCESSOR),
        metadata=pai_meta(help="Modes in which it runs"),
    )
    white: float = field(default=255.0, metadata=pai_meta(help="Brightness that becomes 1 (black becomes 0)"))

    @staticmethod
    def cls() -> type[NormalizeProcessor]:
        return NormalizeProcessor


class NormalizeProcessor(MappingDataProcessor[NormalizeParams]):
    """Scales an image to [0, 1] as float32."""

    def apply(self, sample: Sample) -> Sample:
        image = sample.inputs["img"] / np.float32(self.params.white)
        return sample.new_inputs({**sample.inputs, "img": image})


@pai_dataclass
@dataclass
class RandomShiftParams(DataProcessorParams):
    """Augmentation: move some training images a little, others in each pass over the data."""

    modes: set[PipelineMode] = field(
        default_factory=lambda: {PipelineMode.TRAINING},
        metadata=pai_meta(help="Modes in which it runs"),
    )
    max_shift: int = field(default=1, metadata=pai_meta(help="Move by at most this many pixels"))
    share: float = field(default=0.25, metadata=pai_meta(help="Share of the images that are moved"))

    def __post_init__(self) -> None:
        if not 0 <= self.share <= 1:
            raise ValueError(f"share is {self.share}, expected a number between 0 and 1")
        if self.max_shift < 0:
            raise ValueError(f"max_shift is {self.max_shift}, expected 0 or a number of pixels")

    @staticmethod
    def cls() -> type[RandomShiftProcessor]:
        return RandomShiftProcessor


class RandomShiftProcessor(MappingDataProcessor[RandomShiftParams]):
    """Moves some images down and to the right by random pixels, each number between -max_shift and max_shift.

    All randomness comes from `self.rng`: the same seed gives the same images, however many workers there are
    and wherever a training resumes.
    """

    def apply(self, sample: Sample) -> Sample:
        if self.rng.random() >= self.params.share:
            return sample
        image = sample.inputs["img"]
        limit = min(self.params.max_shift, *image.shape[:2])
        down, right = self.rng.integers(-limit, limit, size=2, endpoint=True)
        return sample.new_inputs({**sample.inputs, "img": shift(image, down, right)})


def shift(image: np.ndarray[Any, Any], down: int, right: int) -> np.ndarray[Any, Any]:
    """The image (`[height, width, ...]`) moved by at most its size in each direction; free pixels are 0."""
    height, width = image.shape[:2]
    moved = np.zeros_like(image)
    moved[max(down, 0) : height + min(down, 0), max(right, 0) : width + min(right, 0)] = image[
        max(-down, 0) : height + min(-down, 0), max(-right, 0) : width + min(-right, 0)
    ]
    return moved
