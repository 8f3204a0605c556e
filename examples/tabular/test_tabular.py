"""Run with `pytest`, or with `python -m unittest`. Needs the folder `patients` (`make_patients.py`)."""

from unittest import TestCase

from tabular.scenario import TableScenario

from tfaip.testing import ScenarioTests


class TestTabular(ScenarioTests, TestCase):
    """The ready tests; add your own methods."""

    scenario = TableScenario
    flags = {
        "data.table": "patients/train.csv",
        "train.files": ["patients/val.csv"],
        "val.files": ["patients/val.csv"],
        "model.units": [4],
    }
