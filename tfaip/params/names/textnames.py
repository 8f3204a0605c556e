"""Names of classes and functions in a text that a file gives as the value of a field."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

from tfaip.params.names.trust import (
    FULL_NAME,
    OWN_PACKAGE,
    NotImportable,
    Trust,
    UntrustedName,
    import_named,
    top_package,
)
from tfaip.util.text import shorten

# At the end of a text; the second also with parts that are filled in later.
_MODULES = (re.compile(r"[\w.]+", re.ASCII), re.compile(r"[\w.{}]+", re.ASCII))
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
# A text may hold values for several fields, which are split once more.
_SPLITS = 3
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(?:\{[^{}]*\}\w*)*", re.ASCII)


def check_text(text: str, trusted: Trust, place: str) -> None:
    """Raise unless a file may give a text as the value of a field, which may name classes and functions.

    Args:
        text: what would follow the flag of the field; every `module:name` in it counts.
        trusted: what the file may name, besides classes of params of `tfaip`.
        place: dotted path, for messages.

    Raises:
        UntrustedName: if a package is not trusted, always before anything of it is imported; or if only a package
            whose every function may be named would do, since a placeholder completes the name; or if a module is known
            only when a placeholder is filled in.
    """
    for name in _names_in(text):
        what = f"{place}: {shorten(name)}"
        module, _, attribute = name.partition(":")
        if _PLACEHOLDER.search(module) is not None:
            raise UntrustedName(f"{what} is refused: its module is known only when the placeholder is filled in", "")
        trusted.require(module, what, {OWN_PACKAGE})
        if _PLACEHOLDER.search(attribute) is not None:
            package = top_package(module)
            if package in trusted.packages:
                continue
            raise UntrustedName(f"{what} is refused: it is known only when the placeholder is filled in", package)
        try:
            found = import_named(name, place, "object")
        except NotImportable:
            continue  # maybe no name at all
        trusted.require_made(found, module, what)


def _names_in(text: str) -> Iterator[str]:
    """Yield what could be `module:name` in a text, or in its words as a shell splits them, with placeholders."""
    for word in _parts(text):
        for before, after in pairwise(word.split(":")):
            attribute = _ATTRIBUTE.match(after)
            if attribute is None:
                continue
            modules = [found[0][::-1] for pattern in _MODULES if (found := pattern.match(before[::-1]))]
            for module in dict.fromkeys(modules):
                name = f"{module}:{attribute[0]}"
                if FULL_NAME.fullmatch(_PLACEHOLDER.sub("1", name)) is not None:
                    yield name


def _parts(text: str) -> list[str]:
    """Return a text, its words, and the words of these."""
    found, words = {text: None}, [text]
    for _ in range(_SPLITS):
        words = [part for word in words for part in _split(word) if part not in found]
        found.update(dict.fromkeys(words))
    return list(found)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its end
        return []
