"""Help text of a field: in its metadata, or the string under it in the source of the class.

The source is read for `--help`, documentation and schemas only, never when a class is declared or
used, and nothing of it is evaluated. A class without source, as in `exec`, has no such texts.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ast

_PLACE = "__declared_at__"


def record_place(cls: type) -> None:
    """Remember file and line of a new class: a class in a notebook could not be found again."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__") != cls.__module__:
        frame = frame.f_back
    if frame is not None:
        setattr(cls, _PLACE, (frame.f_code.co_filename, frame.f_lineno))


def help_of(cls: type, name: str) -> str:
    """Return the help text of a field, its own or an inherited one; "" if there is none.

    In each class its metadata (`option`, `pai_meta`, `Annotated`) go before the source.
    """
    dataclasses.fields(cls)  # an undecorated class becomes a dataclass
    for base in cls.__mro__:
        field = vars(base).get("__dataclass_fields__", {}).get(name)
        if field is None:
            continue
        found = field.metadata.get("help")
        # With a new default only, the metadata are those of a base.
        if not found or name in vars(base).get("__retained_types__", ()):
            found = source_help(base).get(name) or found
        if found:
            return str(found)
    return ""


@cache
def source_help(cls: type) -> Mapping[str, str]:
    """Return field -> the string under it in the body of a class; empty without source."""
    import ast

    body = _class_body(cls)
    found = {}
    for statement, following in zip(body, body[1:], strict=False):
        if isinstance(statement, ast.AnnAssign):
            target: Any = statement.target
        elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            target = statement.targets[0]
        else:
            continue
        if not isinstance(target, ast.Name) or not isinstance(following, ast.Expr):
            continue
        text = following.value
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            found[target.id] = " ".join(inspect.cleandoc(text.value).split())
    return found


def _class_body(cls: type) -> list[ast.stmt]:
    import ast

    module = sys.modules.get(cls.__module__)
    file, line = vars(cls).get(_PLACE, (getattr(module, "__file__", None), None))
    found = []
    for node in ast.walk(_parsed(file, cls.__module__)):
        if isinstance(node, ast.ClassDef) and node.name == cls.__name__:
            begin = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            if line is None or begin <= line <= (node.end_lineno or begin):
                found.append(node)
    # Without a line, a name that several classes of a module have says too little.
    if not found or (line is None and len(found) > 1):
        return []
    return max(found, key=lambda node: node.lineno).body


@cache
def _parsed(file: str | None, module: str) -> ast.Module:
    import ast
    import linecache

    # The second argument lets linecache ask the loader of the module, as for modules in a zip file.
    names = vars(sys.modules[module]) if module in sys.modules else {}
    lines = linecache.getlines(file, names) if file else []
    try:
        return ast.parse("".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # the parser raises the last one for deep nesting
        return ast.Module([], [])  # the file has changed since it was imported
