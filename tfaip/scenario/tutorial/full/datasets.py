"""Data sets of the tutorial: small grey images of ten classes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    Images = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]

NUM_CLASSES = 10


class Dataset(StrEnum):
    """Data sets that the tutorial knows."""

    DIGITS = "digits"
    MNIST = "mnist"
    FASHION_MNIST = "fashion_mnist"

    @property
    def image_size(self) -> int:
        """Height and width of an image in pixels."""
        return 8 if self is Dataset.DIGITS else 28


class Part(StrEnum):
    """Parts of a data set."""

    TRAIN = "train"
    VAL = "val"


def load_images(dataset: Dataset, part: Part) -> Images:
    """Return images (uint8, `[n, size, size, 1]`, 255 is white) and classes (int32, `[n, 1]`).

    Raises:
        UsageError: if the images are not on this machine and cannot be downloaded.
    """
    load = _load_digits if dataset is Dataset.DIGITS else _load_from_keras
    images, labels = load(dataset, part)
    return images[..., None], labels.astype("int32")[:, None]


def _load_digits(dataset: Dataset, part: Part) -> Images:
    """Return digits that ship with scikit-learn: 1797, every fifth one for the validation."""
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise UsageError(
            "the data set 'digits' comes with scikit-learn, which is not installed: pip install scikit-learn"
        ) from error
    digits = load_digits()
    chosen = [(index % 5 == 0) == (part is Part.VAL) for index in range(len(digits.target))]
    # scikit-learn has brightness values from 0 to 16.
    return (digits.images[chosen] * (255 / 16)).astype("uint8"), digits.target[chosen]


def _load_from_keras(dataset: Dataset, part: Part) -> Images:
    """Return images that Keras downloads once: 60,000 for training, 10,000 for validation."""
    # Imported here: this module is loaded by `--help` and by data workers, which need no backend.
    import keras

    try:
        train, val = getattr(keras.datasets, dataset.value).load_data()
    except Exception as error:  # Keras raises a bare Exception if it cannot download
        raise UsageError(
            f"the data set {dataset.value!r} is not in Keras' cache and cannot be downloaded ({error}): "
            "run once with network access, or train on images that need no download with --data.dataset digits"
        ) from error
    return train if part is Part.TRAIN else val
