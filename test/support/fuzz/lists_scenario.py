"""A scenario with list files: a line holds four numbers. As the tiny scenario otherwise."""

from __future__ import annotations

import numpy as np

from test.support.tiny.scenario import TinyData, TinyModelParams
from tfaip.data.generators.listsfile import ListsFileGenerator, ListsFileGeneratorParams
from tfaip.imports import Sample, ScenarioBaseParams, TrainerParams
from tfaip.scenario.listfile.listfilescenario import ListFilePipelineParams, ListFileScenario


class NumbersParams(ListsFileGeneratorParams):
    """A line holds four numbers."""

    @staticmethod
    def cls():
        return Numbers


class Numbers(ListsFileGenerator[NumbersParams]):
    def sample(self, line, list_file):
        x = np.array(line.split(), np.float32)
        return Sample(inputs={"x": x}, targets={"y": x.sum(keepdims=True)})


class NumbersScenarioParams(ScenarioBaseParams[TinyData, TinyModelParams]):
    """Data and model."""


class NumbersTrainerParams(TrainerParams[NumbersScenarioParams, ListFilePipelineParams[NumbersParams]]):
    """Options of the training."""


class NumbersScenario(ListFileScenario[NumbersScenarioParams, NumbersTrainerParams]):
    """Four numbers in, one out."""


def constant() -> float:
    """A learning rate."""
    return 0.01
