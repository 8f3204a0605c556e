"""Reading of a history from a file: `history.json`, or a `learning_rate_file` of RETURNN."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.history import History
from tfaip.trainer.returnnliterals import NotLiteral, is_number, literal, parse_source
from tfaip.util.reading import RECORDS_BYTES, parse_json, read_text
from tfaip.util.text import shorten, shorten_text

_JSON_OBJECT = re.compile(r"\s*\{\s*[\"}]")
# RETURNN writes further numbers of an epoch among its scores.
_META = ":meta:"
_EPOCH_DATA = "EpochData(learningRate=..., error={...})"


@dataclass(frozen=True)
class HistoryFile:
    """Content of a history file.

    Args:
        history: the records.
        is_returnn: True for a `learning_rate_file` of RETURNN, which is read and never replaced.
    """

    history: History
    is_returnn: bool


def read_history(path: str | Path) -> History:
    """Return the history in a file, see `read_history_file`."""
    return read_history_file(path).history


def read_history_file(path: str | Path) -> HistoryFile:
    """Read a `history.json`, or a `learning_rate_file` of RETURNN as text that is never run.

    Raises:
        UsageError: if the file cannot be read, or holds anything else.
    """
    text = read_text(path, RECORDS_BYTES)
    name = shorten_text(str(path), 200)
    is_returnn = _JSON_OBJECT.match(text) is None and "EpochData(" in text
    document = {} if is_returnn else parse_json(text, name)
    try:
        if is_returnn:
            document = parse_learning_rate_file(text)
        # Taken out one by one: parsed text and records together would double the memory.
        items = ((key, document.pop(key)) for key in list(document))
        return HistoryFile(History.from_items(items), is_returnn)
    except TfaipError as error:
        raise UsageError(f"{name}: {error}") from error


def parse_learning_rate_file(text: str) -> dict[str, Any]:
    """Return the content of a `learning_rate_file` of RETURNN in the form of `History.to_dict`.

    The file is a dict: epoch -> EpochData(learningRate=..., error={...}, meta={...}).

    Raises:
        UsageError: it holds anything else.
    """
    try:
        statements = parse_source(text.strip())
        if not statements:
            raise ValueError("it is empty")
    except ValueError as error:
        reason = shorten_text(str(error), 120)
        raise UsageError(f"neither JSON nor a learning_rate_file of RETURNN: {reason}") from error
    tree = statements[0].value if len(statements) == 1 and isinstance(statements[0], ast.Expr) else None
    if not isinstance(tree, ast.Dict):
        raise _unexpected(tree, "epoch: EpochData(...)")
    epochs: dict[str, Any] = {}
    for key, data in zip(tree.keys, tree.values, strict=True):
        epoch = _epoch(key)
        if epoch in epochs:
            raise UsageError(f"epoch {epoch} is given twice, again in line {data.lineno}")
        epochs[epoch] = _record(data)
    return epochs


def _epoch(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value < 10**9:
        return str(node.value)
    raise _unexpected(node, "the number of an epoch")


def _record(node: ast.expr) -> dict[str, Any]:
    match node:
        case ast.Call(func=ast.Name(id="EpochData"), args=[], keywords=keywords):
            fields = {keyword.arg: keyword.value for keyword in keywords}
        case _:
            raise _unexpected(node, _EPOCH_DATA)
    try:
        rate = literal(fields.get("learningRate", fields.get("learning_rate")))
        errors, meta = (_texts(literal(fields.get(name)) or {}) for name in ("error", "meta"))
    except NotLiteral as error:
        raise UsageError(f"this is no learning_rate_file of RETURNN: {error}") from error
    if errors is None or meta is None:
        raise _unexpected(node, _EPOCH_DATA)
    values = {name: v for name, v in errors.items() if is_number(v) and not name.startswith(_META)}
    others = {name: value for name, value in errors.items() if name not in values}
    return {"lr": rate, "values": values, "meta": {**others, **meta}}


def _texts(value: Any) -> dict[str, Any] | None:
    """Return a dict with its keys as text; None for anything else."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _unexpected(node: ast.expr | None, expected: str) -> UsageError:
    line = f" in line {node.lineno}" if node is not None else ""
    found = f", got {shorten(node.value)}" if isinstance(node, ast.Constant) else ""
    return UsageError(f"this is no learning_rate_file of RETURNN: expected {expected}{line}{found}")
