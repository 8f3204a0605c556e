"""Literals in files of RETURNN, which are Python code: they are read as text and never run."""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from tfaip.util.reading import MAX_DEPTH, MIB

SOURCE_BYTES = 4 * MIB
# Names, numbers and brackets. The parser of Python takes about 1.5 kB of memory for each of them.
_MOST_WORDS = 300_000
_LONGEST_LIST = 100_000
_CONSTANTS = {"nan": math.nan, "inf": math.inf}
_OPERATORS: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}


class NotLiteral(ValueError):
    """Error of an expression that only Python itself could compute.

    Args:
        reason: why it cannot be read.
        line: its line in the file.
    """

    def __init__(self, reason: str, line: int) -> None:
        super().__init__(f"{reason} in line {line}")
        self.reason = reason


def parse_source(text: str) -> list[ast.stmt]:
    """Return the statements of Python code of limited size.

    Raises:
        ValueError: if it is not Python, or too large.
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
    """Return the value of an expression of numbers, texts, lists, dicts and items of them.

    Args:
        node: the expression.
        names: values of names that it may use, besides `nan` and `inf`.
        depth: of this expression within another one.

    Raises:
        NotLiteral: if it calls functions, uses other names, or is too large.
    """
    if node is None:
        return None
    if depth > MAX_DEPTH:
        raise NotLiteral("expressions within expressions", node.lineno)
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        for known in (names or {}, _CONSTANTS):
            if node.id in known:
                return known[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = literal(node.operand, names, depth + 1)
        if is_number(value):
            return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.BinOp):
        left, right = literal(node.left, names, depth + 1), literal(node.right, names, depth + 1)
        return _combined(node, left, right)
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_key(key): literal(value, names, depth + 1) for key, value in pairs}
    if isinstance(node, ast.List | ast.Tuple):
        return [literal(item, names, depth + 1) for item in node.elts]
    if isinstance(node, ast.Subscript):
        try:
            return literal(node.value, names, depth + 1)[literal(node.slice, names, depth + 1)]
        except (LookupError, TypeError) as error:
            raise NotLiteral(f"no such item: {ast.unparse(node.slice)}", node.lineno) from error
    raise NotLiteral("not a number, text, list or dict", node.lineno)


def _combined(node: ast.BinOp, left: Any, right: Any) -> Any:
    if is_number(left) and is_number(right) and type(node.op) in _OPERATORS:
        try:
            # As floats: powers of integers could take any amount of memory.
            result = _OPERATORS[type(node.op)](float(left), float(right))
        except (ArithmeticError, ValueError) as error:
            raise NotLiteral(f"{type(error).__name__}", node.lineno) from error
        if isinstance(result, float):
            return result
    if isinstance(left, list) and isinstance(right, list) and isinstance(node.op, ast.Add):
        if len(left) + len(right) > _LONGEST_LIST:
            raise NotLiteral("a list that is too long", node.lineno)
        return left + right
    if isinstance(left, list) and type(right) is int and isinstance(node.op, ast.Mult):
        if len(left) * right > _LONGEST_LIST:
            raise NotLiteral("a list that is too long", node.lineno)
        return left * right
    raise NotLiteral("not a number, text, list or dict", node.lineno)


def _key(node: ast.expr | None) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        return node.value
    line = 1 if node is None else node.lineno
    raise NotLiteral("not a plain key of a dict", line)


def is_number(value: Any) -> bool:
    """Return True for an int or float, which a bool is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)
