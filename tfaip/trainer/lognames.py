"""Names of logged values: what they begin with tells what they were measured on."""

from __future__ import annotations

import re

# The loss under the name that logs and monitors of long standing use.
EPOCH_MEAN = "loss/mean_epoch"
VALIDATION_PREFIX = "val_"
# `lav_l0_acc`: directory of its events, and name of the value there.
LAV_NAME = re.compile(r"(lav_l\d+)_(.+)")


# Directories of the events of the training and of the validation.
TRAIN = "train"
VALIDATION = "validation"


def lav_events(index: int) -> str:
    """Directory of the events of the LAV generator `index` (from 0)."""
    return f"lav_l{index}"


def lav_prefix(index: int) -> str:
    """What the names of the values of the LAV generator `index` (from 0) begin with."""
    return f"{lav_events(index)}_"
