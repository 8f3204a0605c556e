"""The order of what a compiled step of TensorFlow does: first comes its batch."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import keras


def after_the_data(data: Any) -> AbstractContextManager[Any]:
    """Context manager in which all operations wait for the batch of the step.

    One execution of an evaluation may be the one that finds the end of the data. With one step per execution TensorFlow
    would run in it whatever does not depend on the batch: a `Mean` of a scalar would count one batch too many, and a
    random generator would draw once more.

    Args:
        data: the batch, nested tensors.
    """
    if keras.backend.backend() != "tensorflow":
        return nullcontext()
    import tensorflow as tf

    return tf.control_dependencies(tf.nest.flatten(data))
