"""Names of layers and outputs that are the same in every build.

Keras names a layer that its author did not name by a counter per process: `dense`, `dense_1`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import keras


def is_automatic_name(layer: keras.layers.Layer) -> bool:
    """Return True if Keras may have named the layer."""
    return re.fullmatch(rf"{type(layer).__name__.lower()}\d*", layer.name.replace("_", "")) is not None


def counted_names(layers: Sequence[keras.layers.Layer]) -> list[str]:
    """Return a name for each layer of one model: that of its author, or what Keras would name it in a new process.

    Args:
        layers: in the order of the model; their own names are unique.
    """
    taken = {layer.name for layer in layers if not is_automatic_name(layer)}
    names = []
    for layer in layers:
        name = layer.name
        if is_automatic_name(layer):
            plain = re.sub(r"_\d+$", "", layer.name)
            candidates = [plain, *(f"{plain}_{number}" for number in range(1, len(layers) + 1))]
            name = next(candidate for candidate in candidates if candidate not in taken)
            taken.add(name)
        names.append(name)
    return names


def output_names(network: keras.layers.Layer, count: int) -> list[str]:
    """Return a name for each output of a model that returns no dict.

    The name of the layer that computes it, if its author named it; else `output`, or `output_0`, `output_1` ...

    Args:
        network: built.
        count: number of its outputs.
    """
    names: list[str | None] = [None] * count
    if isinstance(network, keras.Model):
        layers = {layer.name: layer for layer in network.layers}
        computing = getattr(network, "output_names", None)
        if isinstance(network, keras.Sequential):
            computing = [network.layers[-1].name]
        for position, name in enumerate(computing or []):
            layer = layers.get(name)
            if layer is not None and not is_automatic_name(layer):
                names[position] = name
    if len(set(names)) < count or None in names:
        return ["output"] if count == 1 else [f"output_{position}" for position in range(count)]
    return [str(name) for name in names]
