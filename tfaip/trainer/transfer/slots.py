"""Variables of an optimizer after a transfer: slots follow the weights that they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tfaip.trainer.transfer.plan import Row, Transfer

if TYPE_CHECKING:
    import numpy as np

AVERAGE = "average"
_UNNAMED = "part_"
# Kinds of slots that mean the same with every update rule.
_OF_EVERY_RULE = (AVERAGE, "gradient_accumulator")

Arrays = Mapping[str, "np.ndarray"]


def slot_arrays(
    transfer: Transfer, old: Arrays, new: Arrays, weights: Arrays, same_rule: bool = True
) -> dict[str, np.ndarray]:
    """Return the values of the variables of an optimizer after a transfer.

    A slot of a weight that was loaded is that of its source; of a weight that was loaded in part, the same entries are
    copied, and all others keep the initial value of the slot (0 for most kinds). A slot of any other weight keeps its
    initial value. Averages of entries without a source are the new values of the weight. Counters, and whatever else
    belongs to no weight, are taken over.

    Args:
        transfer: of the weights, of which only the first source has an optimizer.
        old: variables of the optimizer before, by the names of `TrainingOptimizer.named_variables`.
        new: initial values of the variables of the new optimizer, likewise.
        weights: values of the target weights after the transfer, by path.
        same_rule: True if the update rule is that of before. If not, only averages, accumulated gradients and
            counters are taken over: the moments of one rule mean nothing to another one.

    Returns:
        A value for each variable in `new`.
    """
    rows = {row.target: row for row in transfer.rows}
    keeps_unnamed = same_rule and _slot_shapes(old) == _slot_shapes(new)
    result = {}
    for name, initial in new.items():
        kind, _, path = name.partition("/")
        if path and not kind.startswith(_UNNAMED):
            followed = {} if not same_rule and kind not in _OF_EVERY_RULE else old
            result[name] = _slot(kind, path, rows.get(path), followed, initial, weights)
        elif name in old and old[name].shape == initial.shape and (keeps_unnamed or not path):
            result[name] = old[name]
        else:
            result[name] = initial
    return result


def _slot(kind: str, path: str, row: Row | None, old: Arrays, initial: np.ndarray, weights: Arrays) -> np.ndarray:
    if kind == AVERAGE:
        initial = weights[path]
    if row is None or row.found is None or not row.is_loaded:
        return initial
    source = old.get(f"{kind}/{row.found.name}")
    if row.found.place != 0 or source is None or source.shape != row.found.shape:
        return initial
    return source if row.fit is None else row.fit.copy(source, initial)


def _slot_shapes(variables: Arrays) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the slots, named or not, without the counters."""
    return {name: array.shape for name, array in variables.items() if "/" in name}
