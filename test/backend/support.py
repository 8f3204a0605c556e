"""What the tests of this directory share."""

from typing import Any

import keras
import numpy as np

from tfaip.backend.keras_private import BuiltModel

IS_JAX = keras.backend.backend() == "jax"


class Net(BuiltModel):
    """One layer, in a layer, in a model."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = keras.Sequential([keras.layers.Dense(1, use_bias=False, kernel_initializer="ones")])

    def call(self, x: Any, training: bool | None = None) -> Any:
        return self.inner(x)


def fitted(model: keras.Model, **arguments: Any) -> keras.Model:
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss="mae", **arguments)
    model.fit(np.ones((4, 1), np.float32), np.zeros((4, 1), np.float32), batch_size=2, verbose=0, shuffle=False)
    return model
