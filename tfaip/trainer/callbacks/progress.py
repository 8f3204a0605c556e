"""Progress of an epoch; the code is in `tfaip.trainer.reporting.progress`."""

from tfaip.trainer.reporting.progress import *  # noqa: F403
