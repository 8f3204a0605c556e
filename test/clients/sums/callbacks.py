"""Callbacks of the sums."""

from tfaip.trainer.callbacks.logger_callback import LoggerCallback
from tfaip.trainer.callbacks.tensor_board_callback import TensorBoardCallback
from tfaip.trainer.callbacks.train_params_logger import TrainerCheckpointsCallback


class EpochsLogger(LoggerCallback):
    """The logger that also remembers the epochs and their values."""

    def __init__(self, *args, **kwargs):
        super(EpochsLogger, self).__init__(*args, **kwargs)
        self.epochs = []
        self.logs = []

    def on_epoch_end(self, epoch, logs=None):
        super(EpochsLogger, self).on_epoch_end(epoch, logs)
        self.epochs.append(epoch)
        self.logs.append(dict(logs))


def kinds_of_callbacks(callbacks):
    """Names of the classes that the list has callbacks of."""
    kinds = [LoggerCallback, TensorBoardCallback, TrainerCheckpointsCallback]
    return [kind.__name__ for kind in kinds if any(isinstance(callback, kind) for callback in callbacks)]
