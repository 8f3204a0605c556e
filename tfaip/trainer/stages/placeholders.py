"""References `{NAME.file}` in texts of params: the file that the finished stage NAME has written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

# Other braces belong to the text: `a{2}` of a regular expression, `{epoch:04d}` of a name.
_REFERENCE = re.compile(r"\{([^{}]*)\.file\}")


def referred_stages(value: Any) -> Iterator[str]:
    """Yield the names of the stages that a text refers to, or the texts in a list or dict."""
    if isinstance(value, str):
        yield from _REFERENCE.findall(value)
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from referred_stages(item)


def refers_to_result(value: Any) -> bool:
    """Return True if a text, or one in a list or dict, refers to a stage."""
    return any(True for _ in referred_stages(value))


def fill_directories(text: str, directories: Mapping[str, Path] | None) -> str:
    """Return a text with the files of the stages that it refers to; None: they are not known yet.

    Raises:
        KeyError: if a stage has no file.
    """
    if directories is None:
        return text
    return _REFERENCE.sub(lambda match: str(directories[match[1]]), text)


def map_texts(value: Any, function: Callable[[str], str]) -> Any:
    """Return a value with another text for each text in it, in lists and dicts too."""
    if isinstance(value, str):
        return function(value)
    if isinstance(value, list | tuple):
        return [map_texts(item, function) for item in value]
    if isinstance(value, Mapping):
        return {key: map_texts(item, function) for key, item in value.items()}
    return value


def fill(text: str, repetition: int | None, name_of: Callable[[str], str]) -> str:
    """Return a text whose references have the names that `name_of` returns."""
    return _REFERENCE.sub(lambda match: f"{{{name_of(match[1])}.file}}", text)
