"""Random numbers for the rows of a batch: the same ones on any number of devices."""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.util.typing import Tensor


def uniform_rows(shape: tuple[Any, ...], generator: keras.random.SeedGenerator) -> Tensor:
    """Return float32 numbers that are uniform in [0, 1).

    Where several devices share a batch, each gets those that one device would draw for its rows. (With a shape of its
    rows alone, all devices would draw the same numbers.)

    Args:
        shape: of the result; the first axis are the rows of this device.
        generator: in the same state on all devices.
    """
    replicas = backend.num_replicas()
    if replicas == 1:
        return keras.random.uniform(shape, dtype="float32", seed=generator)
    drawn = keras.random.uniform((replicas, *shape), dtype="float32", seed=generator)
    return ops.take(drawn, backend.replica_number(), axis=0)
