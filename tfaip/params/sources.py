"""Sources of settings, and the values that they give for flags: look-up, unused keys."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from tfaip.errors import UsageError
from tfaip.params.codec import CLASS_KEY, Words
from tfaip.params.tree import is_node, items_of, join_path
from tfaip.util.text import shorten_text


@dataclasses.dataclass(frozen=True, eq=False)
class Source:
    """What a config file gives, or the space of a sweep; another kind of source is a subclass.

    Args:
        tree: flags and values; the keys may be dotted or nested.
        name: for messages and `--print_config`.
    """

    tree: Mapping[str, Any]
    name: str

    # It may name any class and function, not only what is trusted.
    is_trusted: ClassVar[bool] = False
    # What messages have before a key.
    dashes: ClassVar[str] = ""

    @property
    def where(self) -> str:
        """The beginning of a message about the source."""
        return f"{shorten_text(self.name)}: "


@dataclasses.dataclass(frozen=True, eq=False)
class Flags(Source):
    """What the user types, a program sets, or a stage overrides."""

    name: str = "command line"

    is_trusted, dashes, where = True, "--", ""


class Setting(NamedTuple):
    """Value for a param.

    Args:
        value: `Words` of a user, `Word` and plain values of a file.
        rank: of the source; a higher one wins.
        parent: key that holds this one in a file; empty at the top.
    """

    path: str
    value: Any
    source: Source
    rank: int = 0
    parent: str = ""

    @property
    def label(self) -> str:
        """The flag or key as the user wrote it, for messages."""
        return f"{self.source.where}{self.source.dashes}{shorten_text(self.path, 120)}"

    @property
    def is_empty_section(self) -> bool:
        """True for a key of a config file whose own keys are missing, for example comments; it sets nothing."""
        return self.value is None and not self.source.is_trusted


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
            setting = Setting(join_path(parent, key), item, source, rank, parent)
            path = setting.path
            if rank in self._given.setdefault(path, {}):
                raise UsageError(f"{setting.label} is given twice: give it once")
            self._given[path][rank] = setting
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
                if rank in present:
                    shown = present[rank].label
                    raise UsageError(f"both {given.label} (the old name) and {shown} are given: give only {shown}")
                parent = new + given.parent[len(old) :] if given.parent in paths else given.parent
                present[rank] = given._replace(parent=parent)  # messages name what was typed
        return bool(paths)

    def value(self, flag: str, lowest: int = 0, takes_none: bool = True, holds_nodes: bool = False) -> Setting | None:
        """Return what is given for a flag that holds a value, or a list or dict of nodes, which are looked up later."""
        found: Setting | None = None
        for rank, given in sorted(self._given.get(flag, {}).items()):
            if not holds_nodes or not _parts(given.value):
                self._used.add((flag, rank))
            if rank >= lowest and (takes_none or not given.is_empty_section):
                found = given
        return found

    def choice(self, flag: str, lowest: int = 0, takes_none: bool = True, is_fixed: bool = False) -> Setting | None:
        """Return the selected class, `flag: Name` or `__cls__` below the flag; or an object.

        A class that is fixed cannot be selected.
        """
        found: Setting | None = None
        for rank, given in sorted(self._given.get(flag, {}).items()):
            if isinstance(given.value, Mapping):
                if not given.value:
                    self._used.add((flag, rank))
                if CLASS_KEY not in given.value:
                    continue  # fields of the node are looked up by their own flags
                given = given._replace(path=join_path(flag, CLASS_KEY), value=given.value[CLASS_KEY])
            if is_fixed and not is_node(given.value) and given.value is not None:
                continue
            self._used.add((given.path, rank))
            if rank >= lowest and (takes_none or not given.is_empty_section):
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

    def unused(self) -> Iterator[Setting]:
        """Yield everything that was given, but not asked for."""
        for path, ranks in self._given.items():
            for rank, given in ranks.items():
                is_replaced = any(path.startswith(prefix) and rank < limit for prefix, limit in self._replaced)
                if not is_replaced and not _parts(given.value) and not self._is_used(path, rank):
                    yield given

    def _is_used(self, path: str, rank: int) -> bool:
        parent = self._given[path][rank].parent
        return (path, rank) in self._used or (parent != "" and self._is_used(parent, rank))


def _parts(value: Any) -> dict[str, Any] | None:
    """Return what a value of a file holds; None for text, and for a list without params, which may be long."""
    if isinstance(value, Words) or (isinstance(value, list) and not any(isinstance(i, Mapping) for i in value)):
        return None
    return items_of(value)
