"""Where values come from: defaults < config files in order < command line. Looks up flags, notices unused keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.arguments import Words
from tfaip.params.encoding import CLASS_KEY
from tfaip.util.text import shorten_text

COMMAND_LINE = "command line"
DEFAULT = "default"

Path = tuple[str, ...]


@dataclass(frozen=True)
class Hit:
    """A value that a source gives for a flag.

    Args:
        value: `Words` from the command line, plain values from a file.
        origin: name of the source.
        rank: of the source; a higher one wins.
    """

    value: Any
    origin: str
    rank: int

    def label(self, flag: str) -> str:
        """The flag or key as the user wrote it, for messages."""
        return label(flag, self.origin)


def label(flag: str, origin: str) -> str:
    """A flag of the command line, or a key of a file, for messages."""
    shown = shorten_text(flag, 120)
    return f"--{shown}" if origin == COMMAND_LINE else f"{shorten_text(origin)}: {shown}"


@dataclass
class Source:
    """One config file, or the command line.

    Args:
        origin: its name.
        tree: flags and values; the keys may be dotted or nested.
        used: the keys that were asked for.
        former: beginnings of flags -> how they were called before; both spellings are read.
    """

    origin: str
    tree: Mapping[str, Any]
    used: set[Path] = field(default_factory=set)
    former: Mapping[str, str] = field(default_factory=dict)

    def find(self, flag: str) -> tuple[Path, Any] | None:
        """Where the value of a flag stands, and the value.

        Raises:
            UsageError: it is given in two spellings: dotted and nested, or old and new.
        """
        found = [hit for spelling in self._spellings(flag) for hit in _search(self.tree, spelling, ())]
        if len(found) > 1:
            raise UsageError(f"{label(flag, self.origin)} is given twice: give it once")
        return found[0] if found else None

    def _spellings(self, flag: str) -> Iterator[str]:
        yield flag
        for new, old in self.former.items():
            if flag == new or flag.startswith(f"{new}."):
                yield old + flag[len(new) :]

    def unused(self) -> Iterator[str]:
        """The keys that nobody asked for."""
        yield from self._unused(self.tree, ())

    def _unused(self, value: Any, path: Path) -> Iterator[str]:
        if path in self.used:
            return
        parts = _parts(value)
        if parts is None or (not parts and path):
            yield ".".join(path)
            return
        for key, item in parts.items():
            yield from self._unused(item, (*path, key))


class Settings:
    """All sources of one command, lowest first."""

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self.sources = list(sources)
        self._replaced: list[tuple[str, int]] = []

    def value(self, flag: str, lowest: int = 0) -> Hit | None:
        """What the highest source of at least rank `lowest` gives for a flag that holds a value."""
        hit: Hit | None = None
        for rank, source in enumerate(self.sources):
            found = source.find(flag)
            if found is not None:
                source.used.add(found[0])
                hit = Hit(found[1], source.origin, rank) if rank >= lowest else hit
        return hit

    def choice(self, flag: str, lowest: int = 0) -> Hit | None:
        """The class that the highest source selects: `flag: Name`, or `__cls__` below the flag."""
        hit: Hit | None = None
        for rank, source in enumerate(self.sources):
            found = source.find(flag)
            if found is None:
                continue
            path, value = found
            if isinstance(value, Mapping):
                if CLASS_KEY not in value:
                    source.used.update(() if value else [path])
                    continue
                path, value = (*path, CLASS_KEY), value[CLASS_KEY]
            source.used.add(path)
            hit = Hit(value, source.origin, rank) if rank >= lowest else hit
        return hit

    def container(self, flag: str, lowest: int = 0) -> Hit | None:
        """The list or dict of nodes that the highest source gives; its entries are asked for one by one."""
        hit: Hit | None = None
        for rank, source in enumerate(self.sources):
            found = source.find(flag)
            if found is None:
                continue
            path, value = found
            if not _parts(value):
                source.used.add(path)
            hit = Hit(value, source.origin, rank) if rank >= lowest else hit
        return hit

    def replace(self, prefix: str, rank: int) -> None:
        """A source of this rank chose another class: what lower ones say below `prefix` may be unknown to it."""
        self._replaced.append((prefix, rank))

    def unused(self) -> Iterator[tuple[str, str]]:
        """Key and origin of everything that was given and nobody asked for."""
        for rank, source in enumerate(self.sources):
            for key in source.unused():
                if not any(key.startswith(prefix) and rank < limit for prefix, limit in self._replaced):
                    yield key, source.origin


def _parts(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return {str(key): item for key, item in value.items()}
    if isinstance(value, list) and not isinstance(value, Words):
        return {str(index): item for index, item in enumerate(value)}
    return None


def _search(value: Any, flag: str, path: Path) -> Iterator[tuple[Path, Any]]:
    for key, item in (_parts(value) or {}).items():
        if key == flag:
            yield (*path, key), item
        elif flag.startswith(f"{key}."):
            yield from _search(item, flag[len(key) + 1 :], (*path, key))
