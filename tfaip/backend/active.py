"""The one choice between TensorFlow and JAX: `from tfaip.backend.active import backend`.

Import it only where Keras may be imported: params, `--help` and data workers run without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import keras

# For type checkers the two are one: test/backend/test_backends.py compares their functions and arguments.
if TYPE_CHECKING or keras.backend.backend() == "tensorflow":
    from tfaip.backend import tensorflow as backend
else:
    from tfaip.backend import jax as backend

__all__ = ["backend"]
