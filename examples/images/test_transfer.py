"""Run with `pytest`, or with `python -m unittest`. Needs the folder `digits` (`make_digits.py`)."""

from tempfile import TemporaryDirectory
from unittest import TestCase

import numpy as np
from transfer.scenario import TransferScenario

from tfaip.errors import UsageError
from tfaip.testing import ScenarioTests


class TestTransfer(ScenarioTests, TestCase):
    """The ready tests, and one of the backbone."""

    scenario = TransferScenario
    flags = {"data.folder": "digits", "train.per_class": 4}

    def test_the_backbone_begins_with_the_weights_of_its_file(self) -> None:
        from transfer.model import backbone

        source = backbone(8)
        with TemporaryDirectory() as directory:
            params = self.trainer_params()
            params.scenario.model.backbone = f"{directory}/backbone.weights.h5"
            source.save_weights(params.scenario.model.backbone)
            trainer = TransferScenario.create_trainer(params)
            trainer.create_warmstarter().apply(trainer.scenario.graph)
        found = trainer.scenario.graph.network.get_layer("backbone").get_weights()
        for weight, expected in zip(found, source.get_weights(), strict=True):
            np.testing.assert_array_equal(weight, expected)

    def test_a_missing_file_of_the_backbone_is_named(self) -> None:
        params = self.trainer_params()
        params.scenario.model.backbone = "missing.weights.h5"
        trainer = TransferScenario.create_trainer(params)
        expected = "^--model.backbone missing.weights.h5: there is no such file$"
        with self.assertRaisesRegex(UsageError, expected):  # noqa: PT027 (unittest runs it too)
            trainer.create_warmstarter().apply(trainer.scenario.graph)
