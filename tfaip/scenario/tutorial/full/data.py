"""Samples of the tutorial: their shapes, and the generator that reads them."""

from __future__ import annotations

from typing import Any

from tfaip import Data, Generator, Sample, Spec, option, shared
from tfaip.data.generators.sequence import ArrayDataGenerator
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images


class TutorialData(Data):
    """Shapes (without the batch dimension) and types of an image and its class."""

    dataset: Dataset = option(
        Dataset.DIGITS, "Images to learn from; all but digits are downloaded by Keras on first use"
    )

    inputs = {"img": Spec("size", "size", 1)}
    targets = {"label": Spec(1, int)}

    @property
    def size(self) -> int:
        """Height and width of an image."""
        return self.dataset.image_size


class TutorialGenerator(Generator, ArrayDataGenerator[Any]):
    """Generator of the images of one part; `meta` is the number of the image in the part.

    The images of all data sets fit into memory. For data that do not, derive from `Generator` alone
    and load a sample in `__getitem__`.
    """

    part: Part = option(Part.TRAIN, "Images for the training or for the validation")
    dataset: Dataset | None = option(None, "Images to read (None: those of the data)")
    data: TutorialData = shared()

    def load(self) -> Sample:
        images, labels = load_images(self.dataset or self.data.dataset, self.part)
        return Sample(inputs={"img": images}, targets={"label": labels}, meta=list(range(len(images))))
