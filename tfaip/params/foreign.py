"""Options of RETURNN, and what they are called here: for suggestions, they are never accepted."""

from __future__ import annotations

from collections.abc import Mapping

# Name in RETURNN's config, or of an argument of its learning rate control -> flag.
RETURNN_OPTIONS: Mapping[str, str] = {
    "accum_grad_multiple_step": "trainer.train_accum_steps",
    "default_learning_rate": "learning_rate.lr",
    "default_learning_rates": "learning_rate.rates",
    "dynamic_learning_rate": "learning_rate.modulation",
    "error_measure_key": "learning_rate.monitor",
    "error_threshold": "learning_rate.threshold",
    "gradient_clip": "optimizer.clip_value",
    "gradient_noise": "optimizer.gradient_noise.stddev",
    "learning_rate_control": "learning_rate",
    "learning_rate_control_error_measure": "learning_rate.monitor",
    "learning_rate_control_min_num_epochs_per_new_lr": "learning_rate.hold_epochs",
    "learning_rate_control_relative_error_relative_lr": "learning_rate.relative_to_lr",
    "learning_rate_decay": "learning_rate.decay",
    "learning_rate_file": "trainer.history_file",
    "learning_rate_growth": "learning_rate.growth",
    "learning_rates": "learning_rate.rates",
    "min_learning_rate": "learning_rate.min_lr",
    "min_num_epochs_per_new_learning_rate": "learning_rate.hold_epochs",
    "newbob_error_threshold": "learning_rate.threshold",
    "newbob_learning_rate_decay": "learning_rate.decay",
    "newbob_learning_rate_growth": "learning_rate.growth",
    "newbob_multi_num_epochs": "learning_rate.window_epochs",
    "newbob_multi_update_interval": "learning_rate.update_every_n_epochs",
    "newbob_relative_error_grow_threshold": "learning_rate.grow_threshold",
    "newbob_relative_error_threshold": "learning_rate.threshold",
    "relative_error_also_relative_to_learning_rate": "learning_rate.relative_to_lr",
    "relative_error_div_by_old": "learning_rate.divide_by",
    "relative_error_grow_threshold": "learning_rate.grow_threshold",
    "relative_error_threshold": "learning_rate.threshold",
    "reset_updater_vars_mod_step": "optimizer.reset_every_n_epochs",
    "update_interval": "learning_rate.update_every_n_epochs",
}
