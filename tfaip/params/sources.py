"""Settings: the values that sources (config files in order < command line) give for flags; look-up, unused keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import CLASS_KEY, Words
from tfaip.params.tree import is_node, items_of, join_path
from tfaip.util.text import shorten_text

COMMAND_LINE = "command line"
DEFAULT = "default"


@dataclass(frozen=True)
class Setting:
    """Value for a param.

    Args:
        path: flag without dashes.
        value: `Words` of a user, `Word` and plain values of a file.
        origin: name of the source.
        rank: of the source; a higher one wins.
        parent: key that holds this one in a file; empty at the top.
    """

    path: str
    value: Any
    origin: str = COMMAND_LINE
    rank: int = 0
    parent: str = ""

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
    """

    origin: str
    tree: Mapping[str, Any]


class Settings:
    """All that the sources of one command, lowest first, give for each flag.

    Each look-up marks the keys as used in all sources, and returns the value of the highest one whose rank is at least
    `lowest`: when a file or the command line gives a new list, lower sources say nothing about its items.
    """

    def __init__(self, sources: Sequence[Source] = ()) -> None:
        self._given: dict[str, dict[int, Setting]] = {}
        self._used: set[tuple[str, int]] = set()
        self._replaced: list[tuple[str, int]] = []
        for rank, source in enumerate(sources):
            self._add(source.tree, source, rank, "")

    def _add(self, value: Any, source: Source, rank: int, parent: str) -> None:
        """Add what a value holds; the keys of a file may be dotted, or nested in any way: `a: {b.c: ...}`."""
        for key, item in (_parts(value) or {}).items():
            path = join_path(parent, key)
            found = self._given.setdefault(path, {})
            if rank in found:
                raise UsageError(f"{label(path, source.origin)} is given twice: give it once")
            found[rank] = Setting(path, item, source.origin, rank, parent)
            self._add(item, source, rank, path)

    def rename(self, old: str, new: str) -> bool:
        """Read what is given for an old flag, or below it, as that of the new one; return True if there was anything.

        Raises:
            UsageError: if one source gives both.
        """
        paths = [path for path in self._given if f"{path}.".startswith(f"{old}.")]
        for path in paths:
            present = self._given.setdefault(new + path[len(old) :], {})
            for rank, given in self._given.pop(path).items():
                parent = new + given.parent[len(old) :] if given.parent in paths else given.parent
                moved = replace(given, path=new + path[len(old) :], parent=parent)
                if rank in present:
                    raise UsageError(
                        f"both {given.label} (the old name) and {moved.label} are given: give only {moved.label}"
                    )
                present[rank] = moved
        return bool(paths)

    def value(self, flag: str, lowest: int = 0, holds_nodes: bool = False) -> Setting | None:
        """Return what is given for a flag that holds a value, or a list or dict of nodes, which are looked up later."""
        found: Setting | None = None
        for rank, given in sorted(self._given.get(flag, {}).items()):
            if not holds_nodes or not _parts(given.value):
                self._used.add((flag, rank))
            if rank >= lowest:
                found = given
        return found

    def choice(self, flag: str, lowest: int = 0, is_fixed: bool = False) -> Setting | None:
        """Return the selected class, `flag: Name` or `__cls__` below the flag; or an object, or an empty section.

        A class that is fixed cannot be selected.
        """
        found: Setting | None = None
        for rank, given in sorted(self._given.get(flag, {}).items()):
            path = flag
            if isinstance(given.value, Mapping) and CLASS_KEY in given.value:
                path = join_path(flag, CLASS_KEY)
                given = replace(given, value=given.value[CLASS_KEY])
            if is_fixed and not is_node(given.value) and given.value is not None:
                continue
            if not isinstance(given.value, Mapping) or not given.value:
                self._used.add((path, rank))
            # Fields of the node are looked up by their own flags.
            if not isinstance(given.value, Mapping) and rank >= lowest:
                found = given
        return found

    def below(self, flag: str, lowest: int = 0) -> dict[str, Setting]:
        """Return what is given for names below a flag that holds a value."""
        found, prefix = {}, f"{flag}."
        for path, ranks in self._given.items():
            for rank, given in ranks.items() if path.startswith(prefix) else ():
                if not f"{given.parent}.".startswith(prefix):  # else a part of a whole value
                    self._used.add((path, rank))
                    if rank >= lowest:
                        found[path.removeprefix(prefix)] = given
        return found

    def replace(self, prefix: str, rank: int) -> None:
        """Accept unknown keys below `prefix` in lower sources: this rank chose another class."""
        self._replaced.append((prefix, rank))

    def unused(self) -> Iterator[tuple[str, str]]:
        """Yield key and origin of everything that was given, but not asked for."""
        for path, ranks in self._given.items():
            for rank, given in ranks.items():
                is_replaced = any(path.startswith(prefix) and rank < limit for prefix, limit in self._replaced)
                if not is_replaced and not _parts(given.value) and not self._is_used(given):
                    yield path, given.origin

    def _is_used(self, given: Setting) -> bool:
        is_used = (given.path, given.rank) in self._used
        return is_used or (given.parent != "" and self._is_used(self._given[given.parent][given.rank]))


def _parts(value: Any) -> dict[str, Any] | None:
    return None if isinstance(value, Words) else items_of(value)
