"""Run with `pytest`, or with `python -m unittest`."""

from unittest import TestCase

from lines.scenario import LineScenario
from tfaip.testing import ScenarioTests


class TestLines(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = LineScenario
    flags = {"train.size": 40, "val.size": 20, "model.filters": [4]}
