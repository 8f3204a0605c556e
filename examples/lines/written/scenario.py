"""Lines of handwritten digits; several models vote on the text."""

from functools import cached_property
from typing import Any

import numpy as np

from lines.scenario import LineData, LineModelParams, Lines, LineScenario
from tfaip import option


class WrittenData(LineData):
    """As `LineData`, with the height of the digits."""

    height = 8


class WrittenLines(Lines):
    """Lines of scikit-learn's digits, of which every fifth one is for the validation."""

    size = 800
    validation: bool = option(False, "Take the digits for the validation")

    @cached_property
    def digits(self) -> dict[str, list[np.ndarray]]:
        """Images `[width, height]` of each digit, without empty columns."""
        from sklearn.datasets import load_digits

        found: dict[str, list[np.ndarray]] = {}
        for index, (image, digit) in enumerate(zip(*load_digits(return_X_y=True), strict=True)):
            columns = image.reshape(8, 8).T / 16
            if (index % 5 == 0) == self.validation:
                found.setdefault(str(digit), []).append(columns[columns.max(axis=1) > 0])
        return found

    def _pattern(self, char: str, rng: np.random.Generator) -> np.ndarray:
        """Return a digit and at most one empty column."""
        images = self.digits[char]
        return np.pad(images[rng.integers(len(images))], ((0, rng.integers(2)), (0, 0)))


class WrittenScenario(LineScenario):
    """Reads lines of handwritten digits."""

    data, model = WrittenData, LineModelParams
    train, val = WrittenLines(), WrittenLines(seed=2, size=500, validation=True)
    defaults = {"trainer.epochs": 15, "learning_rate.lr": 0.002}

    @classmethod
    def multi_predictor_cls(cls) -> Any:
        from written.voting import WrittenPredictor  # here, since it loads Keras

        return WrittenPredictor
