"""A batch to try a model on: of the data of its training, else of random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.specs import TensorSpec
from tfaip.lav.trainingdata import TrainingDataParams
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.util.logging import logger

_STEPS = 16  # of a dimension of variable length


def sample_inputs(
    scenario: ScenarioBase[Any, Any], training_data: TrainingDataParams | None, batch_size: int
) -> tuple[dict[str, np.ndarray], str]:
    """One batch of inputs, and where it comes from.

    Args:
        scenario: whose data they are.
        training_data: what the training validated on; None, or not there any more: random inputs.
        batch_size: at most as many samples.
    """
    if training_data is not None:
        try:
            inputs = _of_training(scenario, training_data, batch_size)
            if inputs is not None:
                return inputs, "validation data of the training"
        except Exception as error:  # of whatever a generator needs that is not on this machine
            logger(__name__).warning("the data of the training cannot be read (%s): random inputs instead", error)
    return random_inputs(scenario.data.input_layer_specs(), batch_size), "random"


def _of_training(
    scenario: ScenarioBase[Any, Any], training_data: TrainingDataParams, batch_size: int
) -> dict[str, np.ndarray] | None:
    generator = training_data.gen.val_gen()
    if generator is None:
        return None
    setup = replace(training_data.gen.setup.val, batch_size=batch_size)
    pipeline = scenario.data.create_pipeline(setup, generator).to_mode(PipelineMode.EVALUATION)
    pipeline.seed = training_data.random_seed
    with pipeline.generate_input_batches(auto_repeat=False) as batches:
        batch = next(batches, None)
    return None if batch is None else batch.inputs


def random_inputs(specs: Mapping[str, TensorSpec], batch_size: int) -> dict[str, np.ndarray]:
    """Inputs for a model whose data are not there.

    Args:
        specs: per sample; a dimension of variable length gets 16 steps.
        batch_size: samples.

    Returns:
        normal numbers, integers of 0 and 1 (which are valid for any embedding), the text "a".
    """
    rng = np.random.default_rng(0)
    inputs = {}
    for name, spec in specs.items():
        shape = [batch_size, *(_STEPS if size is None else size for size in spec.shape)]
        kind = spec.numpy_dtype.kind
        if kind == "O":
            inputs[name] = np.full(shape, "a", object)
        else:
            values = rng.normal(size=shape) if kind == "f" else rng.integers(0, 2, shape)
            inputs[name] = values.astype(spec.numpy_dtype)
    return inputs
