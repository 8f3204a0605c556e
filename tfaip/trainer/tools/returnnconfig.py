"""Learning rate of a config of RETURNN, which is Python code: it is read as text and never run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
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
_CONTROLS: Mapping[str, type[LearningRateParams]] = {
    "constant": ConstantParams,
    "newbob_abs": NewbobAbsParams,
    "newbob_rel": NewbobRelParams,
    "newbob_multi_epoch": NewbobMultiEpochParams,
}
_PREFIX = "learning_rate."
# Option -> field, where the value is the same.
_FIELDS = {
    "learning_rate": "lr",
    **{name: flag.removeprefix(_PREFIX) for name, flag in RETURNN_OPTIONS.items() if flag.startswith(_PREFIX)},
}
_DIVIDE_BY, _MODULATION = "divide_by", "modulation"
_WANTED = {_CONTROL, _PRETRAIN, *_FIELDS}

log = logger(__name__)


def read_rate_config(path: Path) -> LearningRateParams:
    """Return the learning rate of a config of RETURNN.

    Options that its control does not have are left out, as RETURNN does.

    Args:
        path: a config in Python. Plain values and arithmetic of plain values can be read.

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
    if options.get(_PRETRAIN) is not None:
        log.warning(
            "%s has pretraining, in which RETURNN holds the rate: here the control is applied in all epochs", name
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
            _define(statement, names)
            continue
        targets, value = _assignment(statement)
        if targets is None:
            _refuse_options_inside(statement)
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
    names.pop(target, None)
    try:
        found = literal(value, names)
    except NotLiteral as error:
        if target == _PRETRAIN or (target == _DYNAMIC and not isinstance(value, ast.Dict)):
            names[target] = target  # its value does not matter, only its presence
        elif target in _WANTED:
            raise NotLiteral(f"{target} is computed by code: {error.reason}", value.lineno) from error
        return
    # Other lists are not kept: sums of them could take any amount of memory.
    if target in _WANTED or not isinstance(found, list | dict):
        names[target] = found


def _assignment(statement: ast.stmt) -> tuple[list[str] | None, ast.expr]:
    """Return the names and the value of `a = b = value`, and no names for any other statement."""
    nothing = ast.Constant(None)
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value is not None:
        return [statement.target.id], statement.value
    if not isinstance(statement, ast.Assign):
        return None, nothing
    names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
    return (names, statement.value) if len(names) == len(statement.targets) else (None, nothing)


def _refuse_options_inside(statement: ast.stmt) -> None:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in _WANTED:
            raise NotLiteral(f"{node.id} is set by code", node.lineno)
