"""Events of a run; the code is in `tfaip.trainer.reporting.tensorboard`."""

from tfaip.trainer.reporting.tensorboard import TensorBoardEvents as TensorBoardEvents
