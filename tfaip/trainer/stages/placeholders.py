"""Placeholders in the texts of stages: `{repeat}`, and `{align.dir}`, the directory of another stage."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

REPEAT = "repeat"
_DIRECTORY = ".dir"
# Others belong to the text: `a{2}` of a regular expression, `{epoch:04d}` of a name.
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def refers_to_result(value: Any) -> bool:
    """Return True if a text, or one in a list or dict, has the directory of a stage."""
    if isinstance(value, str):
        return any(inner.endswith(_DIRECTORY) for inner in _PLACEHOLDER.findall(value))
    if isinstance(value, Mapping):
        value = list(value.values())
    return isinstance(value, list | tuple) and any(map(refers_to_result, value))


def fill(text: str, repetition: int | None, name_of: Callable[[str], str]) -> str:
    """Return a text with the number of the repetition, and with the full names of the stages that it refers to.

    Args:
        text: as the user wrote it.
        repetition: number from 1; None: the stage belongs to no group.
        name_of: returns the full name of the stage that a key means.

    Raises:
        ValueError: if there is no repetition; what `name_of` raises.
    """

    def replace(match: re.Match[str]) -> str:
        inner = match[1]
        if inner == REPEAT:
            if repetition is None:
                raise ValueError("no {repeat}, which only stages of a RepeatStage have")
            return str(repetition)
        if inner.endswith(_DIRECTORY):
            return f"{{{name_of(inner.removesuffix(_DIRECTORY))}{_DIRECTORY}}}"
        return match[0]

    return _PLACEHOLDER.sub(replace, text)


def fill_directories(text: str, directories: Mapping[str, Path] | None) -> str:
    """Return a text with the directories of the stages that it refers to.

    Args:
        text: as `fill` returns it.
        directories: full name of a stage -> its directory; None: they are not known yet, the placeholders stay.

    Raises:
        KeyError: if there is no directory of a stage.
    """

    if directories is None:
        return text

    def replace(match: re.Match[str]) -> str:
        inner = match[1]
        if not inner.endswith(_DIRECTORY):
            return match[0]
        return str(directories[inner.removesuffix(_DIRECTORY)])

    return _PLACEHOLDER.sub(replace, text)


def map_texts(value: Any, function: Callable[[str], str]) -> Any:
    """Return a value with another text for each text in it, in lists and dicts too."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, function) for item in value]
    if isinstance(value, Mapping):
        return {key: map_texts(item, function) for key, item in value.items()}
    return value
