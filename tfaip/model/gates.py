"""Gates of recurrent layers, whose weights Keras joins along the last axis of one variable."""

from __future__ import annotations

import keras

from tfaip.backend.keras_private.layers import ConvLSTMCell

# In the order in which Keras joins them.
_LSTM = ("input_gate", "forget_gate", "cell_gate", "output_gate")
_GRU = ("update_gate", "reset_gate", "candidate_gate")
_GATES: tuple[tuple[type[keras.layers.Layer], tuple[str, ...]], ...] = (
    (keras.layers.LSTMCell, _LSTM),
    (ConvLSTMCell, _LSTM),
    (keras.layers.GRUCell, _GRU),
)


def gate_names(layer: keras.layers.Layer) -> tuple[str, ...]:
    """Return the names of the gates whose weights a cell joins; none: it is no cell with gates."""
    return next((names for cell, names in _GATES if isinstance(layer, cell)), ())
