"""Run with `pytest`, or with `python -m unittest`, after `python make_code.py code`."""

from unittest import TestCase

from text.scenario import TextScenario

from tfaip.testing import ScenarioTests


class TestText(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = TextScenario
    flags = {
        "data.vocabulary": "code/words.txt",
        "train.file": "code/val.txt",
        "val.file": "code/val.txt",
        "trainer.samples_per_epoch": 40,
        "model.units": 4,
    }
