"""Run with `pytest`, or with `python -m unittest`. Needs the folder `digits` (`make_digits.py`)."""

from unittest import TestCase

from folder.scenario import FolderScenario

from tfaip.testing import ScenarioTests


class TestFolder(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = FolderScenario
    flags = {"data.folder": "digits", "model.filters": [4]}
