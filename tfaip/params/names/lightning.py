"""Options of PyTorch Lightning and their counterparts here, for suggestions: they are never accepted."""

from __future__ import annotations

from collections.abc import Mapping

# Name of an argument of its trainer, data loaders and callbacks -> flag.
LIGHTNING_OPTIONS: Mapping[str, str] = {
    "accelerator": "device.gpus",
    "accumulate_grad_batches": "trainer.train_accum_steps",
    "benchmark": "device.gpu_auto_tune",
    "check_val_every_n_epoch": "trainer.val_every_n",
    "default_root_dir": "trainer.output_dir",
    "detect_anomaly": "trainer.debug_nonfinite",
    "devices": "device.gpus",
    "drop_last": "train.batch_drop_remainder",
    "enable_checkpointing": "trainer.write_checkpoints",
    "enable_model_summary": "summary",
    "enable_progress_bar": "trainer.progress_bar_mode",
    "fast_dev_run": "dry_run",
    "gradient_clip_val": "optimizer.clip_global_norm",
    "logger": "trainer.callbacks",
    "lr_scheduler": "learning_rate",
    "max_epochs": "trainer.epochs",
    "num_sanity_val_steps": "dry_run",
    "num_workers": "train.num_processes",
    "precision": "device.precision",
    "profiler": "trainer.profile",
    "seed_everything": "trainer.random_seed",
    "strategy": "device.dist_strategy",
    "val_check_interval": "trainer.scale_epoch_size",
}
_CLASS = "a class is chosen by its name, in a file as __cls__ with its values beside it: optimizer: {__cls__: AdamW}"
_RATE_SEARCH = "a rate that grows, --learning_rate Piecewise, shows where the loss falls (docs/migration_lightning.md)"
_ANSWERS: Mapping[str, str] = {
    "auto_lr_find": _RATE_SEARCH,
    "ckpt_path": (
        "tfaip-resume-training RUN continues a run; a new one starts with the weights of --warmstart.model; tfaip-lav "
        "and tfaip-predict take a model as --export_dir RUN"
    ),
    "class_path": _CLASS,
    "deterministic": "--device.deterministic True on a GPU; on a CPU always; the seed is --trainer.random_seed",
    "gradient_clip_algorithm": "norm is --optimizer.clip_global_norm, value is --optimizer.clip_value",
    "init_args": _CLASS,
    "limit_test_batches": "tfaip-lav --pipeline.limit N takes the first N samples",
    "limit_train_batches": "--trainer.samples_per_epoch N is a number of samples, not of batches",
    "limit_val_batches": "--val.limit N is a number of samples, not of batches",
    "log_every_n_steps": "values are logged for each epoch, as means over it",
    "lr_find": _RATE_SEARCH,
    "max_steps": "a training is counted in epochs: --trainer.epochs, each of --trainer.samples_per_epoch samples",
    "max_time": "a signal stops a job with a time limit, tfaip-resume-training continues it (docs/devices.md)",
    "min_delta": "early stopping counts every improvement, however small",
    "min_epochs": "a training has no least number of epochs; early stopping waits for --early_stopping.n_to_go",
    "monitor": "early stopping follows the value that tells the best model, best of the scenario (docs/scenario.md)",
    "num_nodes": "several machines: docs/devices.md",
    "overfit_batches": "--train.limit N and --val.limit N are numbers of samples, not of batches",
    "patience": "--early_stopping.n_to_go is patience + 1: the best epoch counts, too",
    "save_top_k": "one best model is kept, by the value that best of the scenario names (docs/scenario.md)",
}


def lightning_counterpart(key: str) -> str | None:
    """Return the counterpart of an option of Lightning, given as a flag or key; None: unknown."""
    return LIGHTNING_OPTIONS.get(_option(key))


def lightning_hint(key: str) -> str | None:
    """Return a hint for an option of Lightning without a counterpart; None: no such option."""
    return _ANSWERS.get(_option(key))


def _option(key: str) -> str:
    """Return the name of an option that is given alone, or as its command line has it; empty: another flag."""
    section, _, name = key.removeprefix("fit.").rpartition(".")
    if name in ("class_path", "init_args") or ".init_args." in f".{section}.":
        return "class_path"
    return name if section in ("", "trainer", "data", "early_stopping") else ""
