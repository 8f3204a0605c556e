"""Options of PyTorch Lightning and their counterparts here, for suggestions: they are never accepted."""

from __future__ import annotations

from collections.abc import Mapping

# Name of an argument of its trainer, data loaders and callbacks -> flag.
LIGHTNING_OPTIONS: Mapping[str, str] = {
    "accelerator": "device.gpus",
    "accumulate_grad_batches": "trainer.train_accum_steps",
    "check_val_every_n_epoch": "trainer.val_every_n",
    "default_root_dir": "trainer.output_dir",
    "detect_anomaly": "trainer.debug_nonfinite",
    "devices": "device.gpus",
    "drop_last": "train.batch_drop_remainder",
    "enable_progress_bar": "trainer.progress_bar_mode",
    "fast_dev_run": "dry_run",
    "gradient_clip_val": "optimizer.clip_global_norm",
    "limit_train_batches": "trainer.samples_per_epoch",
    "limit_val_batches": "val.limit",
    "max_epochs": "trainer.epochs",
    "num_sanity_val_steps": "dry_run",
    "num_workers": "train.num_processes",
    "overfit_batches": "train.limit",
    "precision": "device.precision",
    "profiler": "trainer.profile",
    "seed_everything": "trainer.random_seed",
    "strategy": "device.dist_strategy",
    "val_check_interval": "trainer.scale_epoch_size",
}
_ANSWERS: Mapping[str, str] = {
    "ckpt_path": "tfaip-resume-training RUN continues a run; a new one starts with the weights of --warmstart.model",
    "deterministic": "trainings are deterministic; the seed is --trainer.random_seed",
    "gradient_clip_algorithm": "norm is --optimizer.clip_global_norm, value is --optimizer.clip_value",
    "max_steps": "a training is counted in epochs: --trainer.epochs, each of --trainer.samples_per_epoch samples",
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
    section, _, name = key.rpartition(".")
    return name if section in ("", "trainer", "data") else ""
