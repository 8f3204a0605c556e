"""Reading of a history from a file: `history.json`, or a `learning_rate_file` of RETURNN."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.trainer.history import History
from tfaip.util.reading import MAX_DEPTH, MIB, RECORDS_BYTES, parse_json, read_text
from tfaip.util.text import shorten, shorten_text

_JSON_OBJECT = re.compile(r"\s*\{\s*[\"}]")
# Of a file of RETURNN. The parser of Python takes about 1.5 kB of memory for each name, number and bracket.
_MOST_BYTES = 4 * MIB
_MOST_WORDS = 300_000
_NUMBER = re.compile(r"float|(np|numpy)\.(float16|float32|float64|int32|int64)")
_NOT_FINITE = re.compile(r"((np|numpy|math)\.|[+-])?(nan|inf|infinity)$", re.IGNORECASE)
# RETURNN writes further numbers of an epoch among its scores.
_META = ":meta:"
# The name that RETURNN gives to the score of a file which has a single number for each epoch.
_OLD_SCORE = "old_format_score"
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

    The file is a dict: epoch -> EpochData(learningRate=..., error={...}, meta={...}). It is Python code, which is
    read as text and never run.

    Raises:
        UsageError: it holds anything else.
    """
    tree = _parse(text.strip())
    if not isinstance(tree, ast.Dict):
        raise _unexpected(tree, "epoch: EpochData(...)")
    epochs: dict[str, Any] = {}
    for key, data in zip(tree.keys, tree.values, strict=True):
        if not isinstance(key, ast.Constant) or type(key.value) is not int or not 1 <= key.value < 10**9:
            raise _unexpected(key, "the number of an epoch")
        if str(key.value) in epochs:
            raise UsageError(f"epoch {key.value} is given twice, again in line {data.lineno}")
        epochs[str(key.value)] = _record(data)
    return epochs


def _parse(text: str) -> ast.expr:
    try:
        if len(text) > _MOST_BYTES or sum(1 for _ in re.finditer(r"\w+|[\[({]", text)) > _MOST_WORDS:
            raise ValueError(f"more than {_MOST_WORDS} words")
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        reason = f"{error.msg} in line {error.lineno}"
    except (RecursionError, MemoryError):
        reason = "nested too deeply"
    except ValueError as error:
        reason = str(error)
    raise UsageError(f"neither JSON nor a learning_rate_file of RETURNN: {shorten_text(reason, 120)}")


def _record(node: ast.expr) -> dict[str, Any]:
    match node:
        case ast.Call(func=ast.Name(id="EpochData"), args=[], keywords=keywords):
            fields = {keyword.arg: _value(keyword.value) for keyword in keywords}
        case _:
            raise _unexpected(node, _EPOCH_DATA)
    errors, meta = {} if fields.get("error") is None else fields["error"], fields.get("meta") or {}
    if _is_number(errors):
        errors = {_OLD_SCORE: errors}
    if not isinstance(errors, dict) or not isinstance(meta, dict):
        raise _unexpected(node, _EPOCH_DATA)
    values = {name: v for name, v in errors.items() if _is_number(v) and not name.startswith(_META)}
    others = {name: value for name, value in errors.items() if name not in values}
    return {"lr": fields.get("learningRate", fields.get("learning_rate")), "values": values, "meta": {**others, **meta}}


def _value(node: ast.expr, depth: int = 0) -> Any:
    """Return the value of a number, text, list or dict, also of `float('nan')`, `inf` and `np.float64(0.5)`."""
    if depth > MAX_DEPTH:
        raise _unexpected(node, "fewer brackets within brackets")
    match node:
        case ast.Constant(value=int() | float() | str() | None as value):
            return value
        case ast.Name() | ast.Attribute() if _NOT_FINITE.fullmatch(name := ast.unparse(node)):
            return float(name.rpartition(".")[2])
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant(value=str() as name)]) if _NOT_FINITE.match(name):
            return float(name.rpartition(".")[2])
        case ast.Call(func=function, args=[number], keywords=[]) if _NUMBER.fullmatch(ast.unparse(function)):
            return _number(number, depth)
        case ast.UnaryOp(op=ast.USub(), operand=number):
            return -_number(number, depth)
        case ast.UnaryOp(op=ast.UAdd(), operand=number):
            return _number(number, depth)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item, depth + 1) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_key(key, node): _value(value, depth + 1) for key, value in zip(keys, values, strict=True)}
    raise _unexpected(node, "a number, text, list or dict")


def _key(node: ast.expr | None, of: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return str(node.value)
    raise _unexpected(node or of, "a plain key of a dict")


def _number(node: ast.expr, depth: int) -> float:
    value = _value(node, depth + 1)
    if not _is_number(value):
        raise _unexpected(node, "a number")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _unexpected(node: ast.expr | None, expected: str) -> UsageError:
    line = f" in line {node.lineno}" if node is not None else ""
    found = f", got {shorten(node.value)}" if isinstance(node, ast.Constant) else ""
    return UsageError(f"this is no learning_rate_file of RETURNN: expected {expected}{line}{found}")
