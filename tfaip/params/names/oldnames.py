"""Classes and fields of params in tfaip 1.2: old names, which stay accepted, and removed fields."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import Any

from tfaip.util.logging import logger

# Class -> its fields with another name today.
RENAMED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "TrainerParams": {"ema_decay": "calc_ema"},
    "OptimizerParams": {"global_clip_norm": "clip_global_norm"},
    "ExponentialDecayParams": {"lr_decay_rate": "decay"},
}

# Class -> its fields that do not exist any more, each with what takes its place (empty: nothing that a user has set).
REMOVED_FIELDS: Mapping[str, Mapping[str, str]] = {
    "TrainerParams": {
        "progbar_delta_time": "the progress bar chooses its own pace",
        "tf_cpp_min_log_level": "the environment variable TFAIP_LOG_LEVEL sets what is printed",
        "export_training_graph_path": "the training graph is not exported",
        "preload_data_progress_bar": "progress_bar_mode sets what is shown",
        "saved_checkpoint_sub_dir": "checkpoints know their own directory",
    },
    "ScenarioBaseParams": {
        "debug_graph_n_examples": "trainer.force_eager runs the graph in Python, to debug it",
        "tensorboard_logger_history_size": "TensorBoard gets the values of each epoch",
        "export_net_config": "manifest.json describes an exported model",
        "net_config_filename": "manifest.json describes an exported model",
        "default_serve_dir": "the SavedModel is in serve/",
        "trainer_params_filename": "training_data.json of a model has the data of its training",
        "additional_serve_dir": "all exported functions of a model are in serve/",
        "scenario_params_filename": "the file is always scenario_params.json",
        "scenario_base_path": "",
        "id": "",
        "tfaip_commit_hash": "",
        "tfaip_version": "",
    },
    "DataBaseParams": {"resource_base_path": "a Resource is stored relative to the file that names it"},
    "LearningRateParams": {"steps_per_epoch": "schedules count epochs, and fractions of them"},
    "CosineDecayParams": {
        "learning_circle": "a cosine decays in every epoch",
        "lr_decay_rate": "a cosine has no rate of its decay",
        "decay_min_fraction": "alpha is the fraction of lr at the end",
        "final_epochs": "WarmupCosineDecay has it",
    },
    "AdaBeliefOptimizer": {
        "amsgrad": "AdaBelief has no such variant here",
        "sma_threshold": "it is 5, as in the paper",
        "total_steps": "a warm-up is that of the learning rate: --learning_rate WarmupConstant",
        "warmup_proportion": "a warm-up is that of the learning rate: --learning_rate WarmupConstant",
        "min_lr": "learning_rate.min_lr is the lower bound",
    },
    "LambOptimizer": {"exclude_from_layer_adaptation": "all weights are adapted"},
    "DeviceConfigParams": {
        "gpu_auto_tune": "the backend decides, or TF_CUDNN_USE_AUTOTUNE (jax: XLA_FLAGS=--xla_gpu_autotune_level=4)",
        "soft_device_placement": "what the GPU does not support runs on the CPU",
    },
    "WarmStartParams": {"auto_remove_numbers_for": "attributes of layers have no automatic numbers"},
    "EarlyStoppingParams": {"best_model_output_dir": "the best model is below output_dir, in best_model_name"},
    "LAVParams": {"store_results": "tfaip-lav --out writes the results"},
    "ComposedProcessorPipelineParams": {
        "run_parallel": "each of its pipelines has its own",
        "num_threads": "each of its pipelines has its own",
        "max_tasks_per_process": "each of its pipelines has its own",
    },
}

_PIPELINES = "tfaip.components.pipelineparams"
_SCHEDULER = "tfaip.trainer.scheduler"
_LISTFILE = "tfaip.scenario.listfile"
_WARMUP_COSINE = f"{_SCHEDULER}.warmup:WarmupCosineDecayParams"
# `__cls__` of 1.2 -> `__cls__` of today, both as "module:Class".
RENAMED_CLASSES: Mapping[str, str] = {
    "tfaip.data.databaseparams:DataGeneratorParams": "tfaip.data.pipeline.datagenerator:DataGeneratorParams",
    "tfaip.data.databaseparams:DataPipelineParams": "tfaip.data.pipeline.params:DataPipelineParams",
    "tfaip.scenario.scenariobaseparams:ScenarioBaseParams": "tfaip.components.params:ScenarioBaseParams",
    "tfaip.trainer.params:TrainerPipelineParams": f"{_PIPELINES}:TrainerPipelineParams",
    "tfaip.trainer.params:TrainerPipelineParamsBase": f"{_PIPELINES}:TrainerPipelineParamsBase",
    "tfaip.trainer.params:TrainerPipelines": f"{_PIPELINES}:TrainerPipelines",
    f"{_LISTFILE}.params:ListFileTrainerPipelineParams": f"{_LISTFILE}.listfilescenario:ListFilePipelineParams",
    f"{_LISTFILE}.params:ListsFileGeneratorParams": "tfaip.data.generators.listsfile:ListsFileGeneratorParams",
    "tfaip.trainer.callbacks.earlystopping.params:EarlyStoppingParams": ("tfaip.trainer.best:EarlyStoppingParams"),
    "tfaip.trainer.optimizer.optimizers:LAMBOptimizer": "tfaip.trainer.optimizer.optimizers:LambOptimizer",
    f"{_SCHEDULER}.constant_params:Constant": f"{_SCHEDULER}.constant:ConstantParams",
    f"{_SCHEDULER}.cosine_decay_params:CosineDecayParams": f"{_SCHEDULER}.cosine:CosineDecayParams",
    f"{_SCHEDULER}.cosine_decay_params:WarmupConstantCosineDecayParams": _WARMUP_COSINE,
    f"{_SCHEDULER}.cosine_decay_params:WarmupCosineDecayParams": _WARMUP_COSINE,
    f"{_SCHEDULER}.exponential_decay_params:ExponentialDecayParams": (
        f"{_SCHEDULER}.exponential:ExponentialDecayParams"
    ),
    f"{_SCHEDULER}.learningrate_params:LearningRateParams": f"{_SCHEDULER}.params:LearningRateParams",
    "tfaip.trainer.warmstart.warmstart_params:WarmStartParams": "tfaip.trainer.warmstart.params:WarmStartParams",
}


def renamed_fields(cls: type) -> dict[str, str]:
    """Return old name -> present name of all renamed fields of a class and its bases."""
    return _of_class(cls, RENAMED_FIELDS)


def removed_fields(cls: type) -> dict[str, str]:
    """Return the fields that a class and its bases had, each with what to know of it."""
    return _of_class(cls, REMOVED_FIELDS)


def _of_class(cls: type, table: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        found.update(table.get(base.__name__, {}))
    # A subclass may have a field of its own with the name.
    fields = getattr(cls, "__dataclass_fields__", {})
    return {name: text for name, text in found.items() if name not in fields}


def current_name(cls: type, name: str, stacklevel: int = 3) -> str:
    """Return the present name of a field; warn with a `DeprecationWarning` if `name` is an old one.

    Args:
        cls: class that has the field.
        name: old or present name.
        stacklevel: which caller the warning shows, counted from here.
    """
    new = renamed_fields(cls).get(name)
    if new is None:
        return name
    warn_renamed(f"{cls.__name__}.{name}", new, stacklevel + 1)
    return new


def warn_renamed(old: str, new: str, stacklevel: int = 2) -> None:
    """Warn that a name is old."""
    warnings.warn(f"{old} is now called {new}", DeprecationWarning, stacklevel)


@cache
def warn_removed(shown: str, note: str) -> None:
    """Log that a field no longer exists, once for each name."""
    if note:
        logger(__name__).warning("%s was removed and has no effect: %s", shown, note)


def current_names(cls: type, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values` with old field names replaced by the present ones, and without removed fields.

    Raises:
        TypeError: a field is given by its old and by its present name.
    """
    removed = removed_fields(cls)
    for name in removed.keys() & values.keys():
        warn_removed(f"{cls.__name__}.{name}", removed[name])
    values = {name: value for name, value in values.items() if name not in removed}
    if not renamed_fields(cls).keys() & values.keys():
        return dict(values)
    renamed: dict[str, Any] = {}
    for name, value in values.items():
        new = current_name(cls, name, stacklevel=4)
        if new in renamed or (new != name and new in values):
            raise TypeError(f"{cls.__name__} got both {name!r} (the old name) and {new!r}: give only {new!r}")
        renamed[new] = value
    return renamed
