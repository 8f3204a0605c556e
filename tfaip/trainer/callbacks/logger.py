"""Line per epoch; the code is in `tfaip.trainer.reporting.progress`."""

from tfaip.trainer.reporting.progress import result_line as result_line
