"""Transfer of weights from one graph to another by their paths: plan and table. Needs no backend.

A transfer is planned with names, shapes and arrays only, so that arrays may come from files (warm
start) or from the graph of an earlier stage.
"""

from tfaip.trainer.transfer.fitting import Fit
from tfaip.trainer.transfer.names import NameRules
from tfaip.trainer.transfer.params import NewRows, TransferMode, TransferParams
from tfaip.trainer.transfer.plan import Outcome, Row, Source, Transfer, plan_transfer
from tfaip.trainer.transfer.slots import slot_arrays

__all__ = [
    "Fit",
    "NameRules",
    "NewRows",
    "Outcome",
    "Row",
    "Source",
    "Transfer",
    "TransferMode",
    "TransferParams",
    "plan_transfer",
    "slot_arrays",
]
