"""Learning rate of a config of RETURNN, which is Python code: it is read as text and never run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.names.returnn import RETURNN_OPTIONS
from tfaip.params.names.trust import class_name
from tfaip.params.values.encoding import CLASS_KEY
from tfaip.params.values.serialization import from_dict
from tfaip.trainer.returnnliterals import SOURCE_BYTES, NotLiteral, literal, parse_source
from tfaip.trainer.scheduler import (
    ConstantParams,
    CyclicModulationParams,
    LearningRateParams,
    NewbobAbsParams,
    NewbobMultiEpochParams,
    NewbobRelParams,
)
from tfaip.util.logging import logger
from tfaip.util.reading import read_text
from tfaip.util.text import shorten, shorten_text

_CONTROL, _DYNAMIC, _PRETRAIN = "learning_rate_control", "dynamic_learning_rate", "pretrain"
_CONTROL_ALWAYS = "use_learning_rate_control_always"
_CONTROLS: Mapping[str, type[LearningRateParams]] = {
    "constant": ConstantParams,
    "newbob_abs": NewbobAbsParams,
    "newbob": NewbobRelParams,
    "newbob_rel": NewbobRelParams,
    "newbob_relative": NewbobRelParams,
    "newbob_multi_epoch": NewbobMultiEpochParams,
}
_PREFIX = "learning_rate."
# Option -> field, where the value is the same.
_FIELDS = {
    "learning_rate": "lr",
    **{name: flag.removeprefix(_PREFIX) for name, flag in RETURNN_OPTIONS.items() if flag.startswith(_PREFIX)},
}
_DIVIDE_BY, _MODULATION = "divide_by", "modulation"
_WANTED = {_CONTROL, _CONTROL_ALWAYS, _PRETRAIN, *_FIELDS}

log = logger(__name__)


def read_rate_config(path: Path) -> LearningRateParams:
    """Return the learning rate of a config of RETURNN.

    Options that its control does not have are left out, as RETURNN does.

    Args:
        path: a config in Python. Plain values, arithmetic of plain values and items of plain dicts can
            be read.

    Raises:
        UsageError: if the file cannot be read, an option is computed by code, or a value is not
            possible here.
    """
    name = shorten_text(str(path), 120)
    try:
        options = _options(parse_source(read_text(path, SOURCE_BYTES)))
    except ValueError as error:
        raise UsageError(f"{name} cannot be read as a config of RETURNN: {shorten_text(str(error), 150)}") from error
    control = options.get(_CONTROL, "constant")
    cls = _CONTROLS.get(control) if isinstance(control, str) else None
    if cls is None:
        raise UsageError(f"{name}: {_CONTROL} is {shorten(control)}, expected one of {', '.join(_CONTROLS)}")
    if not {"learning_rate", "learning_rates"} & options.keys():
        raise UsageError(f"{name} sets neither learning_rate nor learning_rates: is it a config of RETURNN?")
    if options.get(_PRETRAIN) is not None and not options.get(_CONTROL_ALWAYS):
        log.warning(
            "%s has pretraining without %s, so that RETURNN holds the rate in it: here the control is applied in all "
            "epochs",
            name,
            _CONTROL_ALWAYS,
        )
    try:
        return from_dict(cls, _field_values(options, cls, name))
    except UsageError as error:
        raise UsageError(f"{name}: {shorten_text(str(error), 200)}") from error


def _field_values(options: Mapping[str, Any], cls: type[LearningRateParams], name: str) -> dict[str, Any]:
    """Return the fields of a class by name, as stored params have them."""
    known = {field.name for field in fields(cls)}
    values = {_FIELDS[option]: value for option, value in options.items() if _FIELDS.get(option) in known}
    if _DIVIDE_BY in values:
        values[_DIVIDE_BY] = "old" if values[_DIVIDE_BY] else "new"
    if isinstance(values.get(_MODULATION), dict):
        values[_MODULATION] = _cyclic(values[_MODULATION])
    elif values.pop(_MODULATION, None) is not None:
        log.warning("%s: %s is a function, which is not run: its factor is left out", name, _DYNAMIC)
    return values


def _cyclic(settings: Mapping[Any, Any]) -> dict[str, Any]:
    unknown = settings.keys() - {"interval", "decay"}
    if unknown or "interval" not in settings:
        raise UsageError(f"{_DYNAMIC} is {shorten(settings)}, expected interval and decay")
    found = {CLASS_KEY: class_name(CyclicModulationParams), "interval_steps": settings["interval"]}
    if "decay" in settings:
        found["decay"] = settings["decay"]
    return found


def _options(statements: list[ast.stmt]) -> dict[str, Any]:
    """Return the options of the learning rate.

    Raises:
        NotLiteral: if the value of one is computed by code.
    """
    names: dict[str, Any] = {}
    for statement in statements:
        if isinstance(statement, ast.FunctionDef):
            _forget_dicts(statement, names)
            _define(statement, names)
            continue
        targets, value = _assignment(statement)
        if targets is None:
            _refuse_options_inside(statement, names)
            _forget_dicts(statement, names)
            continue
        for target in targets:
            _assign(target, value, names)
    return {name: value for name, value in names.items() if name in _WANTED}


def _define(function: ast.FunctionDef, names: dict[str, Any]) -> None:
    names.pop(function.name, None)
    if function.name == _DYNAMIC:
        names[_DYNAMIC] = function.name
    elif function.name in _WANTED:
        raise NotLiteral(f"{function.name} is a function", function.lineno)


def _assign(target: str, value: ast.expr, names: dict[str, Any]) -> None:
    known = True
    try:
        found = literal(value, names)
    except NotLiteral as error:
        known = target in (_PRETRAIN, _DYNAMIC) and not (target == _DYNAMIC and isinstance(value, ast.Dict))
        if target in _WANTED and not known:
            raise NotLiteral(f"{target} is computed by code: {error.reason}; write its value", value.lineno) from error
        found = target  # its value does not matter, only its presence
    entries = _plain_entries(value, names) if isinstance(value, ast.Dict) else None
    if not known or isinstance(found, list | dict):
        _forget_dicts(value, names)
    names.pop(target, None)
    if target in _WANTED or (known and not isinstance(found, list | dict)):
        names[target] = found
    elif entries is not None:
        names[target] = entries


def _plain_entries(node: ast.Dict, names: Mapping[str, Any]) -> dict[Any, Any]:
    """Return the entries of a dict that are a number or a text.

    Lists are not kept: sums of them could take any amount of memory.
    """
    found = {}
    for key, value in zip(node.keys, node.values, strict=True):
        with suppress(NotLiteral):
            entry = literal(value, names)
            if isinstance(key, ast.Constant) and not isinstance(entry, list | dict):
                found[key.value] = entry
    return found


def _forget_dicts(node: ast.AST, names: dict[str, Any]) -> None:
    """Forget each dict that code mentions, since it may change it."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id not in _WANTED and isinstance(names.get(part.id), dict):
            del names[part.id]


def _assignment(statement: ast.stmt) -> tuple[list[str] | None, ast.expr]:
    """Return the names and the value of `a = b = value`, and no names for any other statement."""
    nothing = ast.Constant(None)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return [statement.target.id], statement.value
    if not isinstance(statement, ast.Assign):
        return None, nothing
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return (names, statement.value) if len(names) == len(statement.targets) else (None, nothing)


def _refuse_options_inside(statement: ast.stmt, names: Mapping[str, Any]) -> None:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in _WANTED:
            raise NotLiteral(f"{node.id} is set by code", node.lineno)
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.value, ast.Name):
            name = node.value.id
            is_change = isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load)
            if is_change and name in _WANTED and isinstance(names.get(name), list | dict):
                raise NotLiteral(f"{name} is changed by code", node.lineno)
