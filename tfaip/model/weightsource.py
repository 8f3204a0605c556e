"""Sources of weights: named arrays, with the further names by which graphs may find them. Needs no backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tfaip.model.structure.axis import Structure

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Source:
    """Named arrays to take values from.

    Args:
        description: their origin, for messages.
        arrays: the arrays by name.
        aliases: further names -> the name in `arrays`, for sources that do not name weights as the toolkit does.
        by_tail: also find an array by the last parts of its names (see `tails.py`).
        structure: of the weights by their names in `arrays`, if the graph that they belong to is known.
    """

    description: str
    arrays: Mapping[str, np.ndarray]
    aliases: Mapping[str, str] = field(default_factory=dict)
    by_tail: bool = False
    structure: Structure = field(default_factory=dict)
