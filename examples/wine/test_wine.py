"""Run with `pytest`, or with `python -m unittest`."""

from unittest import TestCase

from wine.scenario import WineScenario

from tfaip.testing import ScenarioTests


class TestWine(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = WineScenario
    flags = {"model.units": 4}
