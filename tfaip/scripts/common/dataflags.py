"""Flags of commands that apply models to data: `--lav.*` or `--predict.*`, and `--data.*`."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.device.devices import prepare_devices
from tfaip.errors import UsageError
from tfaip.params.choices import ClassChoice
from tfaip.params.metadata import COMMON
from tfaip.params.settings import differences, flags_of
from tfaip.params.tree import node_fields
from tfaip.scripts.common.parser import CommandParser
from tfaip.util.text import shorten_text

_FLAG = "--data"
_SHOWN = 5


def parse_flags(
    parser: CommandParser, flags: Sequence[str], name: str, params: Any, generators: Sequence[Any]
) -> tuple[SimpleNamespace, list[Any]]:
    """Parse flags, and return them and the generators that they mean; imports the backend at the end.

    Args:
        parser: has the other flags of the command.
        flags: a command line.
        name: of the params, which begins their flags.
        params: params of LAV or of a prediction, which supply the defaults.
        generators: those that are used if no flag says otherwise.
    """
    parser.add_params(name, type(params), default=params, metadata={"fix_dc": True})
    default = generator_of_flags(flags, next(iter(generators), None))
    parser.add_params("data", DataGeneratorParams, default=default, metadata=COMMON)
    for part in ("pipeline", "device"):
        parser.accept_former(f"{name}.{part}", part)
    args = parser.parse(flags)
    chosen = _chosen_data(args.data, generators)
    params = getattr(args, name)
    with flags_of(params, name, "device"):
        prepare_devices(params.device, alone=True)
    return args, chosen


def generator_of_flags(flags: Sequence[str], default: Any) -> Any:
    """Return the generator whose fields the flags set: the default one, or of the only class that has them all.

    Args:
        flags: a command line.
        default: params of a generator; None: there is none.

    Raises:
        UsageError: if several classes have the fields.
    """
    given = [word.partition("=")[0] for word in flags]
    names = {word.removeprefix(f"{_FLAG}.").partition(".")[0] for word in given if word.startswith(f"{_FLAG}.")}
    if not names or _FLAG in given or (default is not None and names <= _fields_of(type(default))):
        return default
    choice = ClassChoice(DataGeneratorParams, {})
    having = [cls for cls in choice.classes if names <= _fields_of(cls)]
    # A scenario derives its generators from others: its own are meant.
    found = [cls for cls in having if not any(issubclass(other, cls) for other in having if other is not cls)]
    if len(found) > 1:
        known = shorten_text(", ".join(map(choice.name_of, found[:_SHOWN])))
        raise UsageError(f"{_FLAG}.{min(names)} may be a flag of {known}: choose one with {_FLAG}")
    # An unknown flag is reported with those that are known.
    return found[0]() if found else default


def _chosen_data(chosen: Any, defaults: Sequence[Any]) -> list[Any]:
    """Return the generators to use: all defaults if no flag changed anything, else the chosen one.

    Args:
        chosen: the first default after the flags `--data.*`.
        defaults: generators of the training.

    Raises:
        UsageError: if there is no default, and nothing was chosen.
    """
    if defaults and type(chosen) is type(defaults[0]) and not differences(defaults[0], chosen, "data"):
        return list(defaults)
    if type(chosen) is DataGeneratorParams:
        raise UsageError(
            "which data? the model names no validation data of its training: name a generator, as in "
            "--data my.package:MyGeneratorParams, and its params with --data.*"
        )
    return [chosen]


def _fields_of(cls: type) -> set[str]:
    return {field.name for field in node_fields(cls) if field.metadata.get("mode") != "ignore"}
