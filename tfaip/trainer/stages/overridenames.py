"""Names of params in overrides: flags without dashes, dotted paths in the tree, and groups of params."""

from __future__ import annotations

from collections.abc import Mapping

from tfaip.errors import UsageError
from tfaip.params.codec import Text
from tfaip.params.root import RootParams
from tfaip.params.tree import Place, walk_places
from tfaip.params.types import path_below
from tfaip.trainer.schedules.targets import split_known
from tfaip.util.text import shorten_text


class ParamNames:
    """Names of the params of a tree: flags, and dotted paths.

    Args:
        params: the root of the tree.
    """

    def __init__(self, params: RootParams) -> None:
        root = type(params).flag_root
        self._flags: dict[str, str] = {}
        for place, _ in walk_places(params, Place.of_root(root)):
            if not place.is_hidden:
                self._flags[place.flag] = place.flag
                self._flags.setdefault(place.path.removeprefix(f"{root}."), place.flag)

    def find(self, name: str) -> str:
        """Return the flag that a name means.

        A name may also be that of a class that is chosen by another override, and the flag one that does not exist.
        """
        known, rest = split_known(name.lstrip("-"), self._flags)
        return f"{self._flags[known]}{rest}" if known else rest

    def is_group(self, name: str) -> bool:
        """Return True if a name means a group of params."""
        begin = f"{name.lstrip('-')}."
        return any(known.startswith(begin) for known in self._flags)


def whole_paths(params: RootParams, overrides: Mapping[str, str]) -> dict[str, str]:
    """Return overrides by whole paths: the text of a group of params (`units=32` of `model`) is split, once.

    Args:
        params: the root of the tree.
        overrides: as of `overridden`.

    Raises:
        UsageError: if a param is given twice.
    """
    names = ParamNames(params)
    found: dict[str, str] = {}
    for name, text in overrides.items():
        parts = {name: text}
        words = [word.partition("=") for word in Text(text)]
        if words and all(equals for _, equals, _ in words) and names.is_group(name):
            parts = {path_below(name, key): value for key, _, value in words}
        for path, value in parts.items():
            if path in found:
                raise UsageError(f"--{shorten_text(path)} is given twice: give it once")
            found[path] = value
    return found


def merge_overrides(params: RootParams, first: Mapping[str, str], second: Mapping[str, str]) -> dict[str, str]:
    """Return all overrides; of a param that both have, in whatever spelling, that of `second`."""
    if not first:
        return dict(second)
    names = ParamNames(params)
    replaced = {names.find(name) for name in second}
    kept = {name: text for name, text in first.items() if names.find(name) not in replaced}
    return {**kept, **second}
