"""Generator that the flags `--data.*` mean if no class is chosen by `--data`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import UsageError
from tfaip.params.resolution.choices import ClassChoice
from tfaip.params.tree.nodes import node_fields
from tfaip.util.text import shorten_text

_FLAG = "--data"
_SHOWN = 5


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


def _fields_of(cls: type) -> set[str]:
    return {field.name for field in node_fields(cls) if field.metadata.get("mode") != "ignore"}
