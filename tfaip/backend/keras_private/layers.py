"""Private names of layers: what a layer holds, the call context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import keras

# Attributes of Keras objects that list what other attributes hold already. There is no public list of the attributes
# that the author of a layer has set.
COLLECTIONS = frozenset(
    {
        "_layers",
        "_metrics",
        "_trainable_variables",
        "_non_trainable_variables",
        "_seed_generators",
        "_tracker",
    }
)


def sublayers(layer: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the layers that a layer holds itself, in the order in which it got them.

    `Model.layers` has them of models only.
    """
    return list(layer._layers)


@contextmanager
def own_training_flag(layer: keras.layers.Layer) -> Iterator[None]:
    """Context of a call of a layer, after which `training` is as it was before for the calling layer.

    Keras passes `training` on through a context, in which a nested call leaves its value: after a
    `self.decoder.predict(...)` no dropout of the calling graph would act any more.
    """
    context = layer._get_call_context()
    training = context.get_value("training")
    try:
        yield
    finally:
        context.set_value("training", training)
        layer._maybe_reset_call_context()
