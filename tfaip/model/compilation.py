"""Layers that cannot be compiled: Keras then runs the whole step uncompiled, without naming the reason."""

from __future__ import annotations

import keras

from tfaip.backend.active import backend
from tfaip.backend.keras_private import layers_without_xla
from tfaip.model.trainingmodel import TrainingModel
from tfaip.model.variables import all_layers_by_path
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

# Characters of a warning for names of layers.
NAMES_LIMIT = 100

log = logger(__name__)


def compiles_with_xla(model: TrainingModel, force_eager: bool, jit_compile: bool) -> bool:
    """Return the `jit_compile` argument of `compile`; log a warning if layers keep the step from being compiled.

    Keras compiles a step only if all layers say so (`supports_jit`). On JAX a step that is not compiled runs operation
    by operation; on TensorFlow it is a graph without XLA, as it is by default.

    Args:
        model: built.
        force_eager: of the trainer params.
        jit_compile: of the trainer params.
    """
    if force_eager or not (backend.ALWAYS_COMPILES or jit_compile):
        return False
    layers = sorted(f"{path} ({type(layer).__name__})" for path, layer in uncompiled_layers(model).items())
    if layers:
        log.warning(backend.ADVICE_WITHOUT_COMPILATION, shorten_text(", ".join(layers), NAMES_LIMIT))
    return not layers


def uncompiled_layers(model: TrainingModel) -> dict[str, keras.layers.Layer]:
    """Return the layers that Keras does not compile, by path."""
    paths = {id(layer): path for path, layer in all_layers_by_path(model.graph).items()}
    return {paths.get(id(layer), layer.name): layer for layer in layers_without_xla(model)}
