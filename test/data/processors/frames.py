"""Frames of ones, whose masks can be seen; without a backend, since data workers import this module."""

from __future__ import annotations

import numpy as np

from tfaip.data.data import Data
from tfaip.data.pipeline.datagenerator import Generator
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.specs import Spec


class Frames(Data):
    inputs = {"x": Spec(None, 5)}
    targets = {"y": Spec(1)}
    length_of = "x"


class Ones(Generator):
    """Samples of 6 to 9 frames, whose only mark is their number as meta."""

    count: int = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        return Sample(inputs={"x": np.ones((6 + index % 4, 5))}, targets={"y": [0.0]}, meta=index)
