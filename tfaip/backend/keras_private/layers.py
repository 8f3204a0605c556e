"""Private names of layers: what a layer holds, the call context, parts of single classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
from keras.src.layers.rnn.conv_lstm import ConvLSTMCell

__all__ = ["ConvLSTMCell"]

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


@contextmanager
def watched_calls(
    layers: Sequence[keras.layers.Layer],
    watch: Callable[[keras.layers.Layer, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any],
) -> Iterator[None]:
    """Context in which something stands between the calls of layers and their `call`, which Keras finds by its name.

    There is no public hook around the call of any layer. A layer that is called while something is compiled (the cell
    of a recurrent layer) is watched with the arguments that it has there.

    Args:
        layers: each once.
        watch: called with a layer, its `call` and the arguments; returns what the layer returns.
    """
    own = [(layer, layer.__dict__.get("call")) for layer in layers]
    try:
        for layer in layers:
            object.__setattr__(layer, "call", _watched(layer, watch))
        yield
    finally:
        for layer, call in own:
            if call is not None:
                object.__setattr__(layer, "call", call)
            elif "call" in layer.__dict__:
                object.__delattr__(layer, "call")


def _watched(layer: keras.layers.Layer, watch: Callable[..., Any]) -> Callable[..., Any]:
    call = layer.call
    return lambda *args, **kwargs: watch(layer, call, args, kwargs)


def attention_layers(layer: keras.layers.Layer) -> dict[str, keras.layers.Layer | None]:
    """Return the layers inside of an attention with heads: query, key, value, gate and output.

    They have public names in one of the two classes only.
    """
    return {name: getattr(layer, f"_{name}_dense", None) for name in ("query", "key", "value", "gate", "output")}
