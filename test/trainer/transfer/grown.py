"""Weights of a small net in a large one."""

from __future__ import annotations

from typing import Any

import numpy as np

from test.model.structure.net import Net
from tfaip.trainer.transfer.params import TransferMode, WeightRules
from tfaip.trainer.transfer.plan import Source, Transfer, plan_transfer


def transferred(old: Net, new: Net, zero: bool = False, knows_old: bool = True, blocks: Any = None) -> Transfer:
    """Plan the transfer, and give the new layer its weights; `zero`: with new rows of 0."""
    source = Source("old", old.arrays(), structure=old.structure() if knows_old else {})
    shapes = {path: array.shape for path, array in new.arrays().items()}
    rules = WeightRules(blocks=blocks or {})
    plan = plan_transfer(shapes, [source], rules, TransferMode.SUBSET, new.structure())
    variables = new.variables_by_path()
    initial = {path: np.array(array) for path, array in new.arrays().items()}
    if zero:
        _clear_new_rows(plan, new, initial)
    for path, array in plan.arrays(initial).items():
        variables[path].assign(array)
    return plan


def _clear_new_rows(plan: Transfer, new: Net, initial: dict[str, np.ndarray]) -> None:
    """Set the rows of inputs that the old net lacks to 0: with them the outputs of both must be equal."""
    structure = new.structure()
    for row in plan.rows:
        if row.fit is not None:
            is_recurrent = row.target.endswith("recurrent_kernel")
            for axis in [0] if is_recurrent else structure[row.target].inputs or ():
                is_new = np.ones(row.shape[axis], dtype=bool)
                is_new[row.fit.positions()[axis][1]] = False
                initial[row.target][(slice(None),) * axis + (is_new,)] = 0


def outcomes(plan: Transfer) -> dict[str, str]:
    """What is said of each weight."""
    return {row.target: str(row.fit) if row.fit is not None else row.reason or str(row.outcome) for row in plan.rows}
