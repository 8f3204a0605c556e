"""Weights from one graph to another by their paths: which go where, and a table that says so. Needs no backend.

A transfer is planned on names, shapes and arrays only, so that it serves whatever arrays come from: files (warm start)
or the graph of an earlier stage.
"""

from tfaip.trainer.transfer.names import NameRules
from tfaip.trainer.transfer.plan import Outcome, Row, Source, Transfer, plan_transfer

__all__ = ["NameRules", "Outcome", "Row", "Source", "Transfer", "plan_transfer"]
