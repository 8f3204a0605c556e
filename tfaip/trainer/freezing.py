"""Layers that are excluded from the training (`no_train_scope`)."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import keras

from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.variables import all_layers_by_path, layers_by_path
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.pathpatterns import matching_paths
from tfaip.util.logging import logger
from tfaip.util.text import shorten

# Flags of the layers of graphs that are frozen in parts; layers come before those below them.
_own_flags: WeakKeyDictionary[keras.layers.Layer, list[tuple[keras.layers.Layer, bool]]] = WeakKeyDictionary()

_FROZEN = "no_train_scope"

log = logger(__name__)


def undo_freeze(graph: GenericGraphBase[Any]) -> None:
    """Give all layers the flags back that they had before an earlier training of the same scenario froze some."""
    for layer, is_trainable in _own_flags.pop(graph, []):
        layer.trainable = is_trainable  # sets those below it too, which come later


def freeze_layers(graph: GenericGraphBase[Any], pattern: str) -> None:
    """Exclude layers from the training; call it before the optimizer is built and the model is compiled.

    A frozen layer gets neither gradients nor optimizer slots nor weight decay, its regularisers add
    nothing to the loss, and a `BatchNormalization` in it runs in inference mode, so that its
    statistics stay too.

    Args:
        graph: the outermost graph, built.
        pattern: a regular expression on the whole path of a layer, or of a layer above it.

    Raises:
        FieldAdvice: if no layer matches, or all weights would be frozen.
    """
    layers = layers_by_path(graph)
    frozen = matching_paths(pattern, _FROZEN, "layer", layers)
    _own_flags[graph] = [(layer, layer.trainable) for layer in all_layers_by_path(graph).values()]
    for path in frozen:
        layers[path].trainable = False
    if not graph.trainable_variables:
        raise FieldAdvice(
            f"{{{_FROZEN}}} {shorten(pattern)} matches every layer that can be trained: nothing is left to train",
            _FROZEN,
        )
    trained, total = len(graph.trainable_weights), len(graph.weights)
    log.info("%s %r freezes %s: %d of %d weights are trained", _FROZEN, pattern, ", ".join(frozen), trained, total)
