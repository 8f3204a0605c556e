"""Files of RETURNN, which are Python code: they are read as text and never run."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.util.reading import MAX_DEPTH, MIB, RECORDS_BYTES, read_text
from tfaip.util.text import shorten, shorten_text

SOURCE_BYTES = 4 * MIB
# Names, numbers and brackets; Python takes about 1.5 kB for each of them.
_MOST_WORDS = 300_000
_LONGEST_LIST = 100_000
# RETURNN writes further numbers of an epoch among its scores.
_META = ":meta:"
_JSON_OBJECT = re.compile(r"\s*\{\s*[\"}]")
_CONSTANTS = {"nan": math.nan, "inf": math.inf}
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class NotLiteral(ValueError):
    """An expression that only Python itself could compute.

    Args:
        reason: why it cannot be read.
        line: its line in the file.
    """

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"{reason} in line {line}")
        self.reason = reason


def is_learning_rate_file(path: Path) -> bool:
    """Return True for a `learning_rate_file` of RETURNN, False for a history in JSON or anything else."""
    return is_learning_rate_text(read_text(path, RECORDS_BYTES))


def is_learning_rate_text(text: str) -> bool:
    """Return True for the content of a `learning_rate_file` of RETURNN."""
    return _JSON_OBJECT.match(text) is None and "EpochData(" in text


def read_source(path: Path) -> str:
    """Return the text of a file of RETURNN.

    Raises:
        UsageError: it cannot be read, or is too large.
    """
    return read_text(path, SOURCE_BYTES)


def parse_source(text: str) -> list[ast.stmt]:
    """Return the statements of Python code of limited size.

    Raises:
        ValueError: it is not Python, or too large.
    """
    if len(text) > SOURCE_BYTES or sum(1 for _ in re.finditer(r"\w+|[\[({]", text)) > _MOST_WORDS:
        raise ValueError(f"more than {_MOST_WORDS} words")
    try:
        return ast.parse(text).body
    except SyntaxError as error:
        raise ValueError(f"{error.msg} in line {error.lineno}") from error
    except (RecursionError, MemoryError) as error:
        raise ValueError("nested too deeply") from error


def literal(node: ast.expr | None, names: Mapping[str, Any] | None = None, depth: int = 0) -> Any:
    """Return the value of an expression of numbers, texts, lists and dicts.

    Args:
        node: the expression.
        names: values of names that it may use, besides `nan` and `inf`.
        depth: of this expression within another one.

    Raises:
        NotLiteral: it calls functions, uses other names, or is too large.
    """
    if node is None:
        return None
    if depth > MAX_DEPTH:
        raise NotLiteral("expressions within expressions", node.lineno)
    known = {**_CONSTANTS, **(names or {})}
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in known:
        return known[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = literal(node.operand, names, depth + 1)
        if _is_number(value):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = literal(node.left, names, depth + 1), literal(node.right, names, depth + 1)
        return _combined(node, left, right)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_key(key): literal(value, names, depth + 1) for key, value in pairs}
    if isinstance(node, ast.List | ast.Tuple):
        return [literal(item, names, depth + 1) for item in node.elts]
    raise NotLiteral("not a number, text, list or dict", node.lineno)


def _combined(node: ast.BinOp, left: Any, right: Any) -> Any:
    if _is_number(left) and _is_number(right) and type(node.op) in _OPERATORS:
        try:
            # As floats: integers grow without end.
            result = _OPERATORS[type(node.op)](float(left), float(right))
        except (ArithmeticError, ValueError) as error:
            raise NotLiteral(f"{type(error).__name__}", node.lineno) from error
        if isinstance(result, float):
            return result
    if isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
        return _bounded(left + right, node)
    if isinstance(left, list) and type(right) is int and isinstance(node.op, ast.Mult):
        if len(left) * right > _LONGEST_LIST:
            raise NotLiteral("a list that is too long", node.lineno)
        return left * right
    raise NotLiteral("not a number, text, list or dict", node.lineno)


def _bounded(values: list[Any], node: ast.expr) -> list[Any]:
    if len(values) > _LONGEST_LIST:
        raise NotLiteral("a list that is too long", node.lineno)
    return values


def _key(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    raise NotLiteral("not a plain key of a dict", 1 if node is None else node.lineno)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    is_data = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "EpochData"
    if not is_data or not isinstance(node, ast.Call) or node.args:
        raise _unexpected(node, "EpochData(learningRate=..., error={...})")
    fields = {keyword.arg: keyword.value for keyword in node.keywords}
    try:
        rate = literal(fields.get("learningRate", fields.get("learning_rate")))
        errors, meta = (_texts(literal(fields.get(name)) or {}) for name in ("error", "meta"))
    except NotLiteral as error:
        raise UsageError(f"this is no learning_rate_file of RETURNN: {error}") from error
    if errors is None or meta is None:
        raise _unexpected(node, "EpochData(learningRate=..., error={...})")
    values = {name: v for name, v in errors.items() if _is_number(v) and not name.startswith(_META)}
    others = {name: value for name, value in errors.items() if name not in values}
    return {"lr": rate, "values": values, "meta": {**others, **meta}}


def _texts(value: Any) -> dict[str, Any] | None:
    """Return a dict with its keys as text; None for anything else."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else None


def _unexpected(node: ast.expr | None, expected: str) -> UsageError:
    line = f" in line {node.lineno}" if node is not None else ""
    found = f", got {shorten(node.value)}" if isinstance(node, ast.Constant) else ""
    return UsageError(f"this is no learning_rate_file of RETURNN: expected {expected}{line}{found}")
