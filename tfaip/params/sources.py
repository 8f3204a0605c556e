"""Sources of settings (config files in order < command line): look-up of flags, unused keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import CLASS_KEY, Words
from tfaip.params.tree import is_node, items_of
from tfaip.util.text import shorten_text

COMMAND_LINE = "command line"
DEFAULT = "default"

Path = tuple[str, ...]


@dataclass(frozen=True)
class Setting:
    """Value for a param.

    Args:
        path: flag without dashes.
        value: `Words` of a user, `Word` and plain values of a file.
        origin: name of the source.
        rank: of the source; a higher one wins.
    """

    path: str
    value: Any
    origin: str = COMMAND_LINE
    rank: int = 0

    @property
    def label(self) -> str:
        """The flag or key as the user wrote it, for messages."""
        return label(self.path, self.origin)

    @property
    def is_empty_section(self) -> bool:
        """True for a key of a file whose own keys are missing, for example comments."""
        return self.value is None and self.origin != COMMAND_LINE


def label(flag: str, origin: str) -> str:
    """Return a flag of the command line, or a key of a file, for messages."""
    shown = shorten_text(flag, 120)
    return f"--{shown}" if origin == COMMAND_LINE else f"{shorten_text(origin)}: {shown}"


@dataclass
class Source:
    """One config file, or the command line.

    Args:
        origin: its name.
        tree: flags and values; the keys may be dotted or nested.
        used: the keys that have been asked for.
        former: beginnings of flags -> how they were called before; both spellings are read.
    """

    origin: str
    tree: Mapping[str, Any]
    used: set[Path] = field(default_factory=set)
    former: Mapping[str, str] = field(default_factory=dict)

    def find(self, flag: str) -> tuple[Path, Any] | None:
        """Return the keys that lead to the value of a flag, and the value; None if it is not given.

        Raises:
            UsageError: it is given in two spellings: dotted and nested, or old and new.
        """
        spellings = [flag]
        for new, old in self.former.items():
            if flag == new or flag.startswith(f"{new}."):
                spellings.append(old + flag[len(new) :])
        # `a.b.c` may be one key, or nested in any way: `a: {b.c: ...}`.
        found = [hit for spelling in spellings for hit in _search(self.tree, spelling, ())]
        if len(found) > 1:
            raise UsageError(f"{label(flag, self.origin)} is given twice: give it once")
        return found[0] if found else None

    def unused(self, value: Any, path: Path = ()) -> Iterator[str]:
        """Yield the keys below a value that have not been asked for."""
        if path in self.used:
            return
        parts = _parts(value)
        if parts is None or (not parts and path):
            yield ".".join(path)
            return
        for key, item in parts.items():
            yield from self.unused(item, (*path, key))


class Settings:
    """All sources of one command, lowest first.

    Each look-up marks the keys as used in all sources, and returns the value of the highest one whose rank is at least
    `lowest`: when a file or the command line gives a new list, lower sources say nothing about its items.
    """

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self.sources = list(sources)
        self._replaced: list[tuple[str, int]] = []

    def value(self, flag: str, lowest: int = 0, holds_nodes: bool = False) -> Setting | None:
        """Return what is given for a flag that holds a value, or a list or dict of nodes, which are looked up later."""
        found: Setting | None = None
        for rank, source, path, value in self._found(flag):
            if not holds_nodes or not _parts(value):
                source.used.add(path)
            if rank >= lowest:
                found = Setting(flag, value, source.origin, rank)
        return found

    def choice(self, flag: str, lowest: int = 0, is_fixed: bool = False) -> Setting | None:
        """Return the selected class, `flag: Name` or `__cls__` below the flag; or an object, or an empty section.

        A class that is fixed cannot be selected.
        """
        found: Setting | None = None
        for rank, source, path, value in self._found(flag):
            if isinstance(value, Mapping) and CLASS_KEY in value:
                path, value = (*path, CLASS_KEY), value[CLASS_KEY]
            if is_fixed and not is_node(value) and value is not None:
                continue
            if isinstance(value, Mapping):  # fields of the node: they are looked up by their own flags
                if not value:
                    source.used.add(path)
                continue
            source.used.add(path)
            if rank >= lowest:
                found = Setting(flag, value, source.origin, rank)
        return found

    def below(self, flag: str, lowest: int = 0) -> dict[str, Setting]:
        """Return what is given for names below a flag that holds a value."""
        found = {}
        for rank, source in enumerate(self.sources):
            for name, path, value in _search_below(source.tree, f"{flag}.", ()):
                source.used.add(path)
                if rank >= lowest:
                    found[name] = Setting(f"{flag}.{name}", value, source.origin, rank)
        return found

    def replace(self, prefix: str, rank: int) -> None:
        """Accept unknown keys below `prefix` in lower sources: this rank chose another class."""
        self._replaced.append((prefix, rank))

    def unused(self) -> Iterator[tuple[str, str]]:
        """Yield key and origin of everything that was given, but not asked for."""
        for rank, source in enumerate(self.sources):
            for key in source.unused(source.tree):
                if not any(key.startswith(prefix) and rank < limit for prefix, limit in self._replaced):
                    yield key, source.origin

    def _found(self, flag: str) -> Iterator[tuple[int, Source, Path, Any]]:
        for rank, source in enumerate(self.sources):
            found = source.find(flag)
            if found is not None:
                yield rank, source, *found


def _parts(value: Any) -> dict[str, Any] | None:
    return None if isinstance(value, Words) else items_of(value)


def _search_below(value: Any, beginning: str, path: Path) -> Iterator[tuple[str, Path, Any]]:
    for key, item in (_parts(value) or {}).items():
        if key.startswith(beginning):
            yield key[len(beginning) :], (*path, key), item
        elif beginning.startswith(f"{key}.") and beginning != f"{key}.":
            yield from _search_below(item, beginning[len(key) + 1 :], (*path, key))


def _search(value: Any, flag: str, path: Path) -> Iterator[tuple[Path, Any]]:
    for key, item in (_parts(value) or {}).items():
        if key == flag:
            yield (*path, key), item
        elif flag.startswith(f"{key}."):
            yield from _search(item, flag[len(key) + 1 :], (*path, key))
