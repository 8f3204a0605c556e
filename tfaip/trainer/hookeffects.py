"""Warnings of hooks of a trainer whose effect the writer may expect, but which have none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from types import CodeType
from typing import Any

from tfaip.util.classes import overrides
from tfaip.util.logging import logger

log = logger(__name__)

_COUNTS = re.compile("steps|samples|per_epoch")
# What the trainer does itself, see `compat/callbacks.py`.
_OWN_WORK = {"LoggerCallback", "TensorBoardCallback", "TrainerCheckpointsCallback"}


def call_setup_hooks(trainer: Any, base: type) -> None:
    """Call `setup_data` and `setup_steps_per_epoch`; warn if they set numbers of steps that nothing reads.

    Args:
        trainer: the trainer.
        base: the class whose own methods do nothing.
    """
    before, samples = dict(vars(trainer)), trainer.params.samples_per_epoch
    trainer.setup_data()
    trainer.setup_steps_per_epoch()
    changed = [name for name, value in vars(trainer).items() if before.get(name) is not value]
    counts = [name for name in changed if _COUNTS.search(name)]
    if counts and trainer.params.samples_per_epoch == samples:
        hooks = [name for name in ("setup_data", "setup_steps_per_epoch") if overrides(type(trainer), base, name)]
        log.warning(
            "%s of %s set %s, which the training does not read: set self.params.samples_per_epoch, a number of samples",
            " or ".join(hooks),
            type(trainer).__name__,
            ", ".join(counts),
        )


def warn_of_searched_callbacks(cls: type, base: type) -> None:
    """Warn if `setup_callbacks` of a class looks for callbacks of the trainer in its list, since there are none."""
    if not overrides(cls, base, "setup_callbacks"):
        return
    code = getattr(cls.setup_callbacks, "__code__", None)  # type: ignore[attr-defined]
    names = set(_names_in(code)) if code is not None else set()
    searched = sorted(names & _OWN_WORK)
    if searched and "isinstance" in names:
        log.warning(
            "%s.setup_callbacks looks for %s, but the list has only callbacks that were given to train: the trainer "
            "does this work itself",
            cls.__name__,
            ", ".join(searched),
        )


def _names_in(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes that a function uses, also in its inner functions and comprehensions."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names_in(constant)
