"""Sources of weights: named arrays, with the further names by which graphs may find them. Needs no backend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
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
        prefix: path in the target that all names begin with, see `below`; empty: none.
        structure: of the weights by their names in `arrays`, if the graph that they belong to is known.
    """

    description: str
    arrays: Mapping[str, np.ndarray]
    aliases: Mapping[str, str] = field(default_factory=dict)
    by_tail: bool = False
    prefix: str = ""
    structure: Structure = field(default_factory=dict)

    def below(self, prefix: str) -> Source:
        """Return the arrays of a file for the weights below a path: `kernel` is then called `encoder/kernel`."""
        arrays = {f"{prefix}/{name}": array for name, array in self.arrays.items()}
        aliases = {f"{prefix}/{alias}": f"{prefix}/{name}" for alias, name in self.aliases.items()}
        return replace(self, arrays=arrays, aliases=aliases, prefix=prefix)
