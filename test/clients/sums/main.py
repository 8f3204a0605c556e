"""Commands of the sums: train, and continue a training."""

import json
import os
import sys

from paiargparse import PAIArgumentParser
from test.clients.sums.scenario import SumsScenario
from tfaip.trainer.trainer import Trainer


def train(argv=None):
    params = SumsScenario.default_trainer_params()
    parser = PAIArgumentParser()
    parser.add_root_argument("trainer", params.__class__, default=params)
    trainer = SumsScenario.create_trainer(parser.parse_args(argv).trainer)
    trainer.train()
    return trainer


def resume(directory, clean_epochs):
    with open(os.path.join(directory, "trainer_params.json")) as f:
        params = Trainer.parse_trainer_params(json.load(f))
    params.clean_epochs = clean_epochs
    trainer = SumsScenario.create_trainer(params, restore=True)
    trainer.train()
    return trainer


if __name__ == "__main__":
    train(sys.argv[1:])
