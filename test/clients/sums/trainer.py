"""Trainer of the sums: first with noise, then a second time without."""

import logging

from test.clients.sums.callbacks import EpochsLogger, kinds_of_callbacks
from test.clients.sums.params import SumsTrainerParams
from tfaip.trainer.trainer import Trainer

logger = logging.getLogger(__name__)


class SumsTrainer(Trainer[SumsTrainerParams]):
    def __init__(self, params, scenario, restore=False):
        super(SumsTrainer, self).__init__(params, scenario, restore)
        self.epochs_logger = EpochsLogger()
        self.kinds = []
        self.set_up = 0

    def setup_data(self):
        self.set_up += 1
        super(SumsTrainer, self).setup_data()

    def setup_callbacks(self, optimizer, callbacks=None):
        callbacks = super(SumsTrainer, self).setup_callbacks(optimizer, callbacks)
        callbacks.append(self.epochs_logger)
        self.kinds = kinds_of_callbacks(callbacks)
        return callbacks

    def fit(self):
        logs = super(SumsTrainer, self).fit()
        if self._params.clean_epochs > 0:
            logger.info("Training again, without noise")
            self._params.gen.train.noise = 0
            self._params.epochs = self._params.clean_epochs
            self._params.current_epoch = 0
            self.setup_data()
            self.setup_steps_per_epoch()
            logs = super(SumsTrainer, self).fit()
        return logs
