"""The random generator of Keras that draws without a seed."""

from __future__ import annotations

import keras
from keras.src.backend.common import global_state
from keras.src.random import seed_generator


def global_random_state() -> list[int] | None:
    """Return the state of the generator that draws without a seed; None: nothing was drawn so far.

    Checkpoints hold it. The public `keras.random.SeedGenerator` are those of layers.
    """
    generator = global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)
    if generator is None:
        return None
    state: list[int] = keras.ops.convert_to_numpy(generator.state).tolist()
    return state


def set_global_random_state(state: list[int]) -> None:
    """Set the state of the generator that draws without a seed, which is made if there is none."""
    seed_generator.global_seed_generator().state.assign(state)


def forget_global_random_state() -> None:
    """Remove the generator that draws without a seed: the next one takes its seed from the generator of Python.

    The public `keras.utils.set_random_seed` does it too, but imports an installed TensorFlow.
    """
    global_state.set_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR, None)
