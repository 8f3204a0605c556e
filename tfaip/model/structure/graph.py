"""Structure of the weights of a built graph, derived from its layers and from how they are connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import keras

from tfaip.backend.keras_private.symbolic import (
    recorded_calls,
    tensors_in_symbolic_calls,
    variables_in_symbolic_calls,
)
from tfaip.model.structure.axis import WeightStructure
from tfaip.model.structure.layers import LAYER_RULES, declare_weights
from tfaip.model.structure.operations import OPERATION_RULES
from tfaip.model.structure.recording import WeightRecord
from tfaip.model.structure.tracing import Tracer
from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.logging import logger
from tfaip.util.typing import TensorDict

log = logger(__name__)

_SAMPLES = 3
# Enough for convolutions and pooling in a row; a prime, so that no reshape takes it for a product of other sizes.
_POSITIONS = 251


def model_structure(model: TrainingModel, inputs: TensorDict, targets: TensorDict) -> dict[str, WeightStructure]:
    """Return the structure of the weights of a training model.

    Args:
        model: the model, built.
        inputs: Keras tensors by name, with the batch dimension.
        targets: likewise.
    """

    def calls(inputs: TensorDict, targets: TensorDict) -> list[Callable[[], Any]]:
        return [lambda: model.graph.call(inputs), lambda: model.call((inputs, targets), training=False)]

    return graph_structure(model.graph, calls(inputs, targets), calls(with_sizes(inputs), with_sizes(targets)))


def with_sizes(tensors: Mapping[str, Any]) -> TensorDict:
    """Return Keras tensors with numbers in the place of the sizes that are not known: of the batch, and of others."""

    def sized(tensor: keras.KerasTensor) -> keras.KerasTensor:
        samples, *sizes = tensor.shape
        shape = (samples or _SAMPLES, *(size or _POSITIONS for size in sizes))
        return keras.KerasTensor(shape, dtype=tensor.dtype, name=tensor.name)

    return {name: sized(tensor) for name, tensor in tensors.items()}


def graph_structure(
    graph: keras.layers.Layer, calls: Iterable[Callable[[], Any]], sized_calls: Iterable[Callable[[], Any]] = ()
) -> dict[str, WeightStructure]:
    """Return the structure of the variables of a graph by path.

    Layers and operations of Keras are known, and what consists of them, is. What else a layer does with its inputs is
    not: then the axes that follow are unknown.

    Args:
        graph: the outermost graph, built.
        calls: functions that call it with Keras tensors.
        sized_calls: the same with tensors whose sizes are all known. They are called if code of a layer needs such a
            size, as `ops.arange(ops.shape(x)[1])` does.
    """
    record = WeightRecord(graph)
    declare_weights(record)
    tracer = Tracer(record, LAYER_RULES, OPERATION_RULES)
    # What layers pass to `add_loss` must not stay in them.
    with variables_in_symbolic_calls(), keras.StatelessScope(collect_losses=True):
        for call in calls:
            _follow(call, tracer)
        if not tracer.is_complete:
            with tensors_in_symbolic_calls():
                for call in sized_calls:
                    _follow(call, tracer)
    return record.structure()


def _follow(call: Callable[[], Any], tracer: Tracer) -> None:
    """Follow a call of the graph, and all calls of layers in it, also those on which its outputs do not depend."""
    layers = list(tracer.record.layers.values())
    before = [len(recorded_calls(layer)) for layer in layers]
    try:
        tracer.follow(call())
    except Exception as error:
        # Code of the user, which need not run on tensors without values: what came before is known.
        tracer.is_complete = False
        log.debug("the graph can only be followed in part: %r", error)
    for layer, count in zip(layers, before, strict=True):
        for recorded in recorded_calls(layer)[count:]:
            tracer.follow(recorded.outputs)
