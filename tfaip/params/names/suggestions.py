"""Suggestions for mistyped names and for options of RETURNN, for messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

# Option of the learning rate, the updates or the pretraining in RETURNN -> flag. They are never accepted.
RETURNN_OPTIONS: Mapping[str, str] = {
    "accum_grad_multiple_step": "trainer.train_accum_steps",
    "construction_algo": "stages",
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
    "newbob_multi_num_epochs": "learning_rate.window_epochs",
    "newbob_multi_update_interval": "learning_rate.update_every_n_epochs",
    "newbob_relative_error_threshold": "learning_rate.threshold",
    "pretrain": "stages",
    "relative_error_also_relative_to_learning_rate": "learning_rate.relative_to_lr",
    "relative_error_div_by_old": "learning_rate.divide_by",
    "relative_error_grow_threshold": "learning_rate.grow_threshold",
    "relative_error_threshold": "learning_rate.threshold",
    "repetitions": "pretraining.repetitions",
    "reset_updater_vars_mod_step": "optimizer.reset_every_n_epochs",
    "update_interval": "learning_rate.update_every_n_epochs",
    "use_learning_rate_control_always": "pretraining.rate_control",
}
# Of a list of known names, so that an error stays one line of 300 characters.
_LIST_LIMIT = 140


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble `name`, best first; case does not matter."""
    import difflib  # 4 ms, and only messages need it

    spelling: dict[str, str] = {}
    for candidate in known:
        spelling.setdefault(candidate.lower(), candidate)
    return [spelling[match] for match in difflib.get_close_matches(name.lower(), spelling)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean a or b?"`, or the known names if none is near, for a message.

    For an option of RETURNN the answer is its name here.
    """
    known = list(known)
    near = nearest(name, known)
    counterpart = RETURNN_OPTIONS.get(name, "").rpartition(".")[2]
    if counterpart in known:
        near = [counterpart]
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {one_of(known)}" if known else ""


def one_of(known: Iterable[str]) -> str:
    """Return `"expected one of: a, b"`, to be appended to a message."""
    return f"expected one of: {listed(known)}"


def listed(known: Iterable[str]) -> str:
    """Return `"a, b, ..."`: the sorted names, as many as a message has room for; none is cut."""
    names = ", ".join(sorted(known))
    if len(names) > _LIST_LIMIT:
        names = names[:_LIST_LIMIT].rpartition(", ")[0] + ", ..."
    return names
