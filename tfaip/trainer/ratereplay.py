"""What other params of the learning rate would have done with the scores of a run."""

from __future__ import annotations

import ast
import math
from typing import Any

from tfaip.errors import UsageError
from tfaip.trainer.history import EpochRecord, History
from tfaip.trainer.scheduler import LearningRateParams

# RETURNN writes further numbers of an epoch among its scores.
_META = ":meta:"


def replay(params: LearningRateParams, recorded: History) -> History:
    """The rates that `params` give for the recorded epochs, decided on the recorded values."""
    replayed = History()
    for epoch in recorded.epochs:
        replayed.record(epoch, EpochRecord(params.rate(epoch, replayed), recorded.values(epoch)))
    return replayed


def parse_returnn_file(text: str) -> History:
    """The content of a `learning_rate_file` of RETURNN: epoch -> EpochData(learningRate=..., error={...}).

    It is Python code; it is read as text and never run.

    Raises:
        UsageError: it holds anything else.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UsageError(f"neither JSON nor a learning_rate_file of RETURNN: {error}") from error
    if not isinstance(tree, ast.Dict):
        raise _unexpected(tree, "epoch: EpochData(...)")
    return History({_epoch(key): _record(data) for key, data in zip(tree.keys, tree.values, strict=True)})


def _epoch(node: ast.expr | None) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int and node.value >= 1:
        return node.value
    raise _unexpected(node, "the number of an epoch")


def _record(node: ast.expr) -> EpochRecord:
    is_data = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "EpochData"
    if not is_data or not isinstance(node, ast.Call) or node.args:
        raise _unexpected(node, "EpochData(learningRate=..., error={...})")
    fields = {keyword.arg: keyword.value for keyword in node.keywords}
    rate = _plain(fields.get("learningRate", fields.get("learning_rate")))
    errors = _plain(fields.get("error")) or {}
    meta = _plain(fields.get("meta")) or {}
    if not isinstance(errors, dict) or not isinstance(meta, dict) or not isinstance(rate, float | int | None):
        raise _unexpected(node, "EpochData(learningRate=..., error={...})")
    values = {n: float(v) for n, v in errors.items() if isinstance(v, float | int) and not n.startswith(_META)}
    others = {name: value for name, value in errors.items() if name not in values}
    return EpochRecord(None if rate is None else float(rate), values, {**others, **meta})


def _plain(node: ast.expr | None) -> Any:
    """The value of a literal; `nan` and `inf` are written as names."""
    if node is None:
        return None
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in ("nan", "inf"):
        return math.nan if node.id == "nan" else math.inf
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _plain(node.operand)
        if isinstance(value, float | int):
            return -value
    if isinstance(node, ast.Dict):
        return {str(_plain(key)): _plain(value) for key, value in zip(node.keys, node.values, strict=True)}
    if isinstance(node, ast.List | ast.Tuple):
        return [_plain(item) for item in node.elts]
    raise _unexpected(node, "a number or a text")


def _unexpected(node: ast.expr | None, expected: str) -> UsageError:
    line = f" in line {node.lineno}" if node is not None else ""
    return UsageError(f"this is no learning_rate_file of RETURNN: expected {expected}{line}")
