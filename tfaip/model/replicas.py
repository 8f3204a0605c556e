"""What a replica of a distribution strategy of TensorFlow contributes to the loss of a batch that several share."""

from __future__ import annotations

import keras
from keras import ops

from tfaip.util.typing import Tensor


def num_replicas() -> int:
    """Into how many parts TensorFlow splits a batch; 1 on JAX, where a step sees whole batches on any devices."""
    if keras.backend.backend() != "tensorflow":
        return 1
    import tensorflow as tf

    return int(tf.distribute.get_strategy().num_replicas_in_sync)


def part_of_mean(mean: Tensor, rows: Tensor) -> Tensor:
    """The mean over the rows of this replica; 0 if it got none, as happens with the last batch of an evaluation.

    Args:
        mean: of a loss, not a number if there are no rows.
        rows: number of rows, an integer scalar.
    """
    return mean if num_replicas() == 1 else ops.where(rows > 0, mean, ops.zeros_like(mean))
