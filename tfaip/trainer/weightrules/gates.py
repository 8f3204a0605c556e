"""Parts of fused weights: the gates of recurrent layers of Keras, by paths of their own."""

from __future__ import annotations

import keras

from tfaip.model.variables import all_layers_by_path

# In the order in which Keras joins them along the last axis.
_GATES: tuple[tuple[type[keras.layers.Layer], tuple[str, ...]], ...] = (
    (keras.layers.LSTMCell, ("input_gate", "forget_gate", "cell_gate", "output_gate")),
    (keras.layers.GRUCell, ("update_gate", "reset_gate", "candidate_gate")),
)
_FUSED = ("kernel", "recurrent_kernel", "bias")

Part = tuple[str, slice]


def gates_of(graph: keras.layers.Layer) -> dict[str, list[Part]]:
    """Return the parts of fused weights by the path of the weight: path of the part, and its slice of the last axis.

    The forget gate of `lstm/cell/bias` is `lstm/cell/forget_gate/bias`.
    """
    found: dict[str, list[Part]] = {}
    for path, layer in all_layers_by_path(graph).items():
        gates = next((names for cls, names in _GATES if isinstance(layer, cls)), ())
        for name in _FUSED if gates else ():
            units = int(layer.units)
            found[f"{path}/{name}"] = [
                (f"{path}/{gate}/{name}", slice(i * units, (i + 1) * units)) for i, gate in enumerate(gates)
            ]
    return found
