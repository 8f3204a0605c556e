"""The class of the blank in CTC. Needs no backend."""

from __future__ import annotations


def class_of_blank(blank: int, classes: int) -> int:
    """Return the class of the blank from 0.

    Args:
        blank: as the caller has given it; -1: the last class.
        classes: number of classes, the blank included.

    Raises:
        ValueError: if there is no such class, e.g. since the logits have no class for the blank.
    """
    if not -classes <= blank < classes:
        raise ValueError(f"blank is {blank}, expected a class from 0 to {classes - 1}, or -1 for the last one")
    return blank % classes
