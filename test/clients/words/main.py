"""Train words: `python -m test.clients.words.main --train.lists LIST --val.lists LIST --trainer.output_dir DIR`."""

import logging
import sys

from test.clients.words.scenario import WordsScenario
from tfaip.util.logging import WriteToLogFile
from tfaip.util.tfaipargparse import TFAIPArgumentParser

logger = logging.getLogger(__name__)


def main(argv=None):
    default_params = WordsScenario.default_trainer_params()
    parser = TFAIPArgumentParser(description="Train words")
    parser.add_argument("--n_folds", type=int, default=0, help="Train so many models, each without a part of the words")
    parser.add_root_argument("trainer", default_params.__class__, default=default_params)
    args = parser.parse_args(argv)
    if args.n_folds:
        from test.clients.words.cross_fold import train_folds

        return train_folds(args.trainer, args.n_folds)

    with WriteToLogFile(args.trainer.output_dir, append=False):
        logger.info("Training words with %d units", args.trainer.scenario.model.units)
        return WordsScenario.create_trainer(args.trainer).train()


if __name__ == "__main__":
    main(sys.argv[1:])
