"""Data of a training, stored with its models: LAV and checks of exports use it by default."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.components.loading import ScenarioClass
from tfaip.components.modelfiles import find_former_model
from tfaip.components.pipelineparams import TrainerPipelineParamsBase
from tfaip.components.scenario import ScenarioComponents
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.specs import TensorSpec
from tfaip.params import ParamsBase, option
from tfaip.params.stored import load_params
from tfaip.util.logging import logger
from tfaip.util.reading import read_json

TRAINING_DATA_FILE = "training_data.json"
_RANDOM_STEPS = 16  # length of variable dimensions in random inputs

log = logger(__name__)


class TrainingDataParams(ParamsBase):
    """Generators, pipelines and seed of a training."""

    gen: TrainerPipelineParamsBase = option(help="As in the trainer params")
    random_seed: int = option(0, "Seed of the data")


def load_training_data(path: Path, scenario: ScenarioClass, trusted: Iterable[str] = ()) -> TrainingDataParams | None:
    """Load the data that a model was trained on; None if they are not known."""
    packages = [*scenario.declared_packages(), *trusted]
    file = path / TRAINING_DATA_FILE
    if file.is_file():
        return load_params(file, TrainingDataParams, trusted=packages)
    former = find_former_model(path)
    stored = None if former is None else former.trainer_params_file()
    if stored is None:
        return None
    base: Any = TrainerPipelineParamsBase  # the file names the class of the scenario
    gen = load_params(stored, base, trusted=packages, key="gen")
    seed = read_json(stored).get("random_seed")
    return TrainingDataParams(gen=gen, random_seed=seed if type(seed) is int else 0)


def sample_inputs(
    scenario: ScenarioComponents[Any, Any], training_data: TrainingDataParams | None, batch_size: int
) -> tuple[dict[str, np.ndarray], str]:
    """Return one batch of inputs to try a model on, and a few words on where it comes from."""
    if training_data is not None:
        try:
            inputs = _validation_inputs(scenario, training_data, batch_size)
        except Exception as error:  # a generator may need anything that is not on this machine
            log.warning("the data of the training cannot be read (%s): random inputs instead", error)
            inputs = None
        if inputs is not None:
            return inputs, "validation data of the training"
    return random_inputs(scenario.data.input_layer_specs(), batch_size), "random"


def _validation_inputs(
    scenario: ScenarioComponents[Any, Any], training_data: TrainingDataParams, batch_size: int
) -> dict[str, np.ndarray] | None:
    generator = training_data.gen.val_gen()
    if generator is None:
        return None
    setup = replace(
        training_data.gen.setup.val,
        batch_size=batch_size,
        batch_drop_remainder=False,
        bucket_boundaries=[],
        bucket_batch_sizes=None,
    )
    pipeline = scenario.data.create_pipeline(setup, generator).to_mode(PipelineMode.EVALUATION)
    with pipeline.with_seed(training_data.random_seed).generate_input_batches(auto_repeat=False) as batches:
        batch = next(batches, None)
    return None if batch is None else batch.inputs


def random_inputs(specs: Mapping[str, TensorSpec], batch_size: int) -> dict[str, np.ndarray]:
    """Return random inputs: normal numbers, integers of 0 and 1 (for any embedding), the text "a"."""
    rng = np.random.default_rng(0)
    inputs = {}
    for name, spec in specs.items():
        shape = [batch_size, *(_RANDOM_STEPS if size is None else size for size in spec.shape)]
        kind = spec.numpy_dtype.kind
        if kind == "O":
            inputs[name] = np.full(shape, "a", object)
        elif kind == "f":
            inputs[name] = rng.normal(size=shape).astype(spec.numpy_dtype)
        else:
            inputs[name] = rng.integers(0, 2, shape).astype(spec.numpy_dtype)
    return inputs
