"""Elements of datasets: inputs and targets of a batch, and what several devices must know of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

MARK = "is_whole"
"""Key of what tells several devices whether each has the whole batch, in a third part of an element."""


def packed(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Return the parts of an element as the steps of Keras take them."""
    batch = (parts[0], parts[1])
    return (batch,) if len(parts) == 2 else (batch, parts[2][MARK])
