"""Names of stages: each names a directory, and a reference to it."""

from __future__ import annotations

from collections.abc import Iterable

from tfaip.params.limits import FieldError
from tfaip.trainer.stages.placeholders import REPEAT
from tfaip.trainer.stages.planned import MAIN
from tfaip.util.paths import name_problem

PRETRAINING = "pretraining"
EPOCH = "epoch"
"""First part of the names of stages that `params_for_epoch` gives."""

_RESERVED = {
    MAIN: "is that of the plain params",
    PRETRAINING: "is that of the pretraining",
    EPOCH: "is that of the stages of params_for_epoch",
    REPEAT: "means the number of the repetition",
}


def check_name(name: str, path: str, taken: Iterable[str]) -> None:
    """Raise unless a stage can have a name.

    Args:
        name: its key.
        path: field that has the key, for the message.
        taken: names of the stages before it, in all groups.

    Raises:
        FieldError: if it cannot.
    """
    problem = _problem(name, taken)
    if problem is not None:
        raise FieldError(path, name, f"another name of a stage (it {problem})")


def _problem(name: str, taken: Iterable[str]) -> str | None:
    problem = name_problem(name)
    if problem is not None:
        return problem
    folded = name.casefold()
    if folded in _RESERVED:
        return _RESERVED[folded]
    if any(character in name for character in ".{}= \\"):
        return "has a dot, brace, space, backslash or equals sign"
    # Some file systems do not distinguish Small from small.
    if folded in (other.casefold() for other in taken):
        return "is given twice"
    return None
