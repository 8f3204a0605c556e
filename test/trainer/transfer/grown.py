"""Weights of a small net in a large one."""

from __future__ import annotations

from typing import Any

from test.model.structure.net import Net
from tfaip.trainer.transfer.names import NameRules
from tfaip.trainer.transfer.params import NewRows, TransferMode
from tfaip.trainer.transfer.plan import Source, Transfer, plan_transfer


def transferred(old: Net, new: Net, zero: bool = False, knows_old: bool = True, **fields: Any) -> Transfer:
    """Plan the transfer, and give the new layer its weights."""
    source = Source("old", old.arrays(), structure=old.structure() if knows_old else {})
    shapes = {path: array.shape for path, array in new.arrays().items()}
    rows = NewRows.ZERO if zero else NewRows.INIT
    fields.setdefault("rules", NameRules())
    plan = plan_transfer(shapes, [source], mode=TransferMode.SUBSET, structure=new.structure(), new_rows=rows, **fields)
    variables = new.variables_by_path()
    for path, array in plan.arrays(new.arrays()).items():
        variables[path].assign(array)
    return plan


def outcomes(plan: Transfer) -> dict[str, str]:
    """What is said of each weight."""
    return {row.target: str(row.fit) if row.fit is not None else row.reason or str(row.outcome) for row in plan.rows}
