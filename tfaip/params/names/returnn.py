"""Options of RETURNN and their counterparts here, for suggestions: they are never accepted."""

from __future__ import annotations

from collections.abc import Mapping

# Name in RETURNN's config, or of an argument of its learning rate control -> flag.
RETURNN_OPTIONS: Mapping[str, str] = {
    "batching": "train.shuffle_buffer_size",
    "cleanup_old_models": "trainer.keep_checkpoints",
    "decouple_constraints": "optimizer.weight_decay",
    "ignore_missing": "warmstart.allow_partial",
    "partition_epoch": "trainer.scale_epoch_size",
    "seq_ordering": "train.shuffle_buffer_size",
    "stop_on_nonfinite_train_score": "optimizer.skip_nonfinite",
    "tf_log_dir": "trainer.output_dir",
    "torch_amp": "device.precision",
    "var_name_mapping": "warmstart.rename",
    "accum_grad_multiple_step": "trainer.train_accum_steps",
    "copy_param_mode": "transfer.mode",
    "default_learning_rate": "learning_rate.lr",
    "default_learning_rates": "learning_rate.rates",
    "dynamic_learning_rate": "learning_rate.modulation",
    "error_measure_key": "learning_rate.monitor",
    "error_threshold": "learning_rate.threshold",
    "L1": "weight_penalties",
    "L2": "weight_penalties",
    "gradient_clip": "optimizer.clip_value",
    "gradient_clip_global_norm": "optimizer.clip_global_norm",
    "gradient_clip_norm": "optimizer.clip_norm",
    "gradient_noise": "optimizer.gradient_noise.stddev",
    "learning_rate_control": "learning_rate",
    "learning_rate_control_error_measure": "learning_rate.monitor",
    "learning_rate_control_min_num_epochs_per_new_lr": "learning_rate.hold_epochs",
    "learning_rate_control_relative_error_relative_lr": "learning_rate.relative_to_lr",
    "learning_rate_decay": "learning_rate.decay",
    "learning_rate_file": "trainer.history_file",
    "learning_rate_growth": "learning_rate.growth",
    "learning_rates": "learning_rate.rates",
    "max_seqs": "train.batch_size",
    "max_seq_length": "train.max_element_length",
    "import_model_train_epoch1": "warmstart.model",
    "min_learning_rate": "learning_rate.min_lr",
    "min_num_epochs_per_new_learning_rate": "learning_rate.hold_epochs",
    "newbob_error_threshold": "learning_rate.threshold",
    "newbob_learning_rate_decay": "learning_rate.decay",
    "newbob_learning_rate_growth": "learning_rate.growth",
    "newbob_relative_error_div_by_old": "learning_rate.divide_by",
    "newbob_multi_num_epochs": "learning_rate.window_epochs",
    "newbob_multi_update_interval": "learning_rate.update_every_n_epochs",
    "newbob_relative_error_grow_threshold": "learning_rate.grow_threshold",
    "newbob_relative_error_threshold": "learning_rate.threshold",
    "num_epochs": "trainer.epochs",
    "optimizer_epsilon": "optimizer.epsilon",
    "param_variational_noise": "weight_noise.stddev",
    "preload_from_files": "warmstart.model",
    "relative_error_also_relative_to_learning_rate": "learning_rate.relative_to_lr",
    "relative_error_div_by_old": "learning_rate.divide_by",
    "relative_error_grow_threshold": "learning_rate.grow_threshold",
    "relative_error_threshold": "learning_rate.threshold",
    "repetitions": "pretraining.repetitions",
    "reset_updater_vars_mod_step": "optimizer.reset_every_n_epochs",
    "update_interval": "learning_rate.update_every_n_epochs",
}


_STAGES = (
    "stages are declared with --stages NAME=TrainStage, --pretraining.vary, or the hook pretraining of the scenario "
    "(docs/stages.md)"
)
_EPOCH_HOOK = (
    "the hook params_for_epoch(epoch, params) of the scenario returns the params of an epoch; a list of stages: "
    "--stages NAME=TrainStage"
)
_REPETITIONS = "the hook pretraining returns (params, repetitions); by index: --pretraining.repetitions 0=1 1=3"
# Name, or the part of a name before a dot -> what to say of an option that has no single counterpart.
_ANSWERS: Mapping[str, str] = {
    "#config": "a stage may override any of the params, and hooks get all of them: --stages NAME=TrainStage",
    "#repetition": _REPETITIONS,
    "#repetitions": _REPETITIONS,
    "chunking": "chunks are made by a StreamProcessor of the scenario (docs/migration_returnn.md)",
    "construction_algo": (
        "the hook pretraining(idx, params) of the scenario returns the params of a stage, and None at the end; params "
        "that take one value after the other: --pretraining.vary and --pretraining.values"
    ),
    "copy_output_layer": "weights are copied by their paths: --transfer.include and --transfer.exclude",
    "custom_train_pipeline": _EPOCH_HOOK,
    "get_network": _EPOCH_HOOK,
    "extern_data": "the shapes of data are inputs and targets of the data of a scenario (docs/scenario.md)",
    "keep_best_n": "there is one best model, best/; the best epochs are not kept as checkpoints",
    "save_interval": (
        "a checkpoint is written after each epoch; more of them: --trainer.checkpoint_save_freq N (updates) or "
        "--trainer.checkpoint_every_s SECONDS"
    ),
    "load_epoch": "tfaip-resume-training RUN/checkpoint/epoch_0007 continues a run from an epoch",
    "pretrain": _STAGES,
    "pretrain_learning_rate": (
        "the rate of a stage is its override learning_rate.lr=RATE; it is held with rate_control False of the stage, "
        "or --pretraining.rate_control False"
    ),
    "start_epoch": "tfaip-resume-training RUN/checkpoint/epoch_0007 continues a run from an epoch",
    "use_learning_rate_control_always": (
        "the control follows all stages, but for those with rate_control False (--pretraining.rate_control False), "
        "which is what RETURNN does by default"
    ),
}
# The same for words that may be part of other names.
_ANSWERS_ALONE: Mapping[str, str] = {
    "network": "the network is code of the scenario: a Keras model, or a graph (docs/scenario.md)",
    "task": "each task is a command: tfaip-train, tfaip-lav (eval), tfaip-predict (forward, search)",
}


def returnn_counterpart(key: str) -> str | None:
    """Return the counterpart of an option of RETURNN, given as a flag or key; None: unknown."""
    return RETURNN_OPTIONS.get(key.partition(".")[0]) or RETURNN_OPTIONS.get(key.rpartition(".")[2])


def returnn_hint(key: str) -> str | None:
    """Return a hint for an option of RETURNN without a counterpart; None: no such option."""
    first, last = key.partition(".")[0], key.rpartition(".")[2]
    for name in (last, first):
        if name in _ANSWERS:
            return _ANSWERS[name]
    return _STAGES if first.startswith("pretrain_") else _ANSWERS_ALONE.get(key)
