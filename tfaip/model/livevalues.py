"""Numbers of a graph that a training may change while its compiled step stays, by the path of their layer."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.backend.keras_private.dropout import is_dropout
from tfaip.backend.keras_private.numbers import NumberVariable
from tfaip.model.layerbase import TFAIPLayerBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.variables import all_layers_by_path

# Their dropout is a number within a loop over time, or within an attention that the backend may have fused.
_WITH_OWN_DROPOUT = (
    keras.layers.RNN,
    keras.layers.Bidirectional,
    keras.layers.MultiHeadAttention,
    keras.layers.GroupQueryAttention,
    keras.layers.Attention,
)


def scheduled_values(graph: keras.layers.Layer) -> dict[str, NumberVariable]:
    """Return what layers of ours have made live with `scheduled`: path of the layer, `/`, name -> variable."""
    found = {}
    for path, layer in {"": graph, **all_layers_by_path(graph)}.items():
        if isinstance(layer, TFAIPLayerBase):
            for name, variable in layer.scheduled_values.items():
                found[f"{path}/{name}".lstrip("/")] = variable
    return found


def reset_scheduled_values(graph: keras.layers.Layer, model: ModelBase[Any]) -> None:
    """Give all numbers that schedules may change the values of the code again.

    Those of a graph are stored with its weights: they may come from a checkpoint, another model or another stage.
    """
    for variable in (*scheduled_values(graph).values(), *model.scheduled_values.values()):
        variable.assign(variable.declared)


def dropout_layers(graph: keras.layers.Layer) -> dict[str, Any]:
    """Return the dropout layers of Keras whose rate can be a variable by path, without those in recurrent layers and
    attention.
    """
    layers = all_layers_by_path(graph)
    closed = [f"{path}/" for path, layer in layers.items() if isinstance(layer, _WITH_OWN_DROPOUT)]
    return {path: layer for path, layer in layers.items() if is_dropout(layer) and not path.startswith(tuple(closed))}
