"""`trainer.no_train_scope`: layers that a training leaves as they are."""

from __future__ import annotations

from typing import Any

from tfaip.errors import UsageError
from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.variables import layers_by_path
from tfaip.util.logging import logger
from tfaip.util.pathpatterns import matching_paths
from tfaip.util.text import shorten

FLAG = "--trainer.no_train_scope"

log = logger(__name__)


def freeze_layers(graph: GenericGraphBase[Any], pattern: str) -> None:
    """Exclude layers from the training; call it before the optimizer is built and the model is compiled.

    A frozen layer gets neither gradients nor optimizer slots nor weight decay, its regularisers add nothing to the
    loss, and a `BatchNormalization` in it runs in inference mode, so that its statistics stay too.

    Args:
        graph: the outermost graph, built.
        pattern: a regular expression that must match the whole path of a layer, or of something above it.

    Raises:
        UsageError: no layer matches, or all weights would be frozen.
    """
    layers = layers_by_path(graph)
    frozen = {path: layers[path] for path in matching_paths(pattern, FLAG, "layer", layers)}
    for layer in frozen.values():
        layer.trainable = False
    if not graph.trainable_variables:
        raise UsageError(f"{FLAG} {shorten(pattern)} matches every layer that can be trained: nothing is left to train")
    log.info(
        "%s %r freezes %s: %d of %d weights are trained",
        FLAG,
        pattern,
        ", ".join(frozen),
        len(graph.trainable_weights),
        len(graph.weights),
    )
