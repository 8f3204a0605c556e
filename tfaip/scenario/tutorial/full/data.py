"""Samples of the tutorial: small grey images of ten classes, their shapes, and the generator that reads them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tfaip import Data, Generator, Sample, Spec, option, shared
from tfaip.data.generators.sequence import ArrayDataGenerator

if TYPE_CHECKING:
    import numpy as np

    Images = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

NUM_CLASSES = 10


class Dataset(StrEnum):
    """Data sets that the tutorial knows."""

    DIGITS = "digits"
    MNIST = "mnist"

    @property
    def image_size(self) -> int:
        """Height and width of an image in pixels."""
        return 8 if self is Dataset.DIGITS else 28


class Part(StrEnum):
    """Parts of a data set."""

    TRAIN = "train"
    VAL = "val"


class TutorialData(Data):
    """Shapes (without the batch dimension) and types of an image and its class."""

    dataset: Dataset = option(Dataset.DIGITS, "Images to learn from; mnist is downloaded by Keras on first use")

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


def load_images(dataset: Dataset, part: Part) -> Images:
    """Return images (uint8, `[n, size, size, 1]`, 255 is white) and classes (int32, `[n, 1]`)."""
    images, labels = _load_digits(part) if dataset is Dataset.DIGITS else _load_mnist(part)
    return images[..., None], labels.astype("int32")[:, None]


def _load_digits(part: Part) -> Images:
    """Return digits that ship with scikit-learn: 1797, every fifth one for the validation."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    chosen = [(index % 5 == 0) == (part is Part.VAL) for index in range(len(digits.target))]
    # scikit-learn has brightness values from 0 to 16.
    return (digits.images[chosen] * (255 / 16)).astype("uint8"), digits.target[chosen]


def _load_mnist(part: Part) -> Images:
    """Return images that Keras downloads once: 60,000 for training, 10,000 for validation."""
    # Imported here: this module is loaded by `--help` and by data workers, which need no backend.
    import keras

    train, val = keras.datasets.mnist.load_data()
    return train if part is Part.TRAIN else val
