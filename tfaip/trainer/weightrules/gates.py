"""Parts of fused weights: the gates of recurrent layers of Keras, by paths of their own."""

from __future__ import annotations

import keras

from tfaip.model.gates import gate_names
from tfaip.model.variables import all_layers_by_path

_FUSED = ("kernel", "recurrent_kernel", "bias")

Part = tuple[str, slice]


def gates_of(graph: keras.layers.Layer) -> dict[str, list[Part]]:
    """Return the parts of fused weights by the path of the weight: path of the part, and its slice of the last axis.

    The forget gate of `lstm/cell/bias` is `lstm/cell/forget_gate/bias`.
    """
    found: dict[str, list[Part]] = {}
    for path, layer in all_layers_by_path(graph).items():
        gates = gate_names(layer)
        for name in _FUSED if gates else ():
            weight = getattr(layer, name)
            size = 0 if weight is None else int(weight.shape[-1]) // len(gates)
            found[f"{path}/{name}"] = [
                (f"{path}/{gate}/{name}", slice(i * size, (i + 1) * size)) for i, gate in enumerate(gates)
            ]
    return found
