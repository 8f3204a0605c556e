"""Run with `pytest`, or with `python -m unittest`."""

from unittest import TestCase

from my_scenario.scenario import MyScenario

from tfaip.testing import ScenarioTests


class TestMyScenario(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = MyScenario
    flags = {"train.size": 100, "model.units": [8]}
