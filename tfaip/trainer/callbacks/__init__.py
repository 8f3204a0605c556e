"""Module paths of earlier versions; the code is in `tfaip.trainer.reporting`."""
