"""Run with `pytest`, or with `python -m unittest`."""

from unittest import TestCase

import numpy as np
from written.scenario import WrittenScenario

from tfaip.imports import Sample
from tfaip.testing import ScenarioTests


class TestWritten(ScenarioTests, TestCase):
    """The ready tests, and one of the vote."""

    scenario = WrittenScenario
    flags = {"train.size": 40, "val.size": 20, "model.filters": [4]}

    def test_the_text_that_is_nearest_to_all_wins(self) -> None:
        from written.voting import MiddleVoter

        for texts, expected in (
            (["1234", "124", "124"], "124"),  # two agree
            (["34", "1234", "234"], "234"),  # the distances to the others are 2 + 1, 2 + 1 and 1 + 1
            (["12"], "12"),
        ):
            sample = Sample(outputs=[{"text": text} for text in texts], meta=[{"text": "124"}] * len(texts))
            voted = MiddleVoter().vote(sample)
            np.testing.assert_equal((voted.outputs, voted.meta), ({"text": expected}, {"text": "124"}))
