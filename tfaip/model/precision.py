"""Outputs of a graph that computes in 16 bits, for losses, metrics and users, which count in 32."""

from __future__ import annotations

import keras
from keras import ops

from tfaip.util.typing import TensorDict

HALF = ("float16", "bfloat16")


def full_precision(outputs: TensorDict) -> TensorDict:
    """The outputs, cast to float32 where they are of 16 bits."""
    return {
        name: ops.cast(value, "float32") if keras.backend.standardize_dtype(value.dtype) in HALF else value
        for name, value in outputs.items()
    }
