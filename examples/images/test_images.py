"""Run with `pytest`, or with `python -m unittest`. Needs the folder `digits` (`make_digits.py`)."""

from unittest import TestCase

from images.scenario import ImageScenario

from tfaip.testing import ScenarioTests


class TestImages(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = ImageScenario
    flags = {"data.folder": "digits", "model.filters": [4]}
