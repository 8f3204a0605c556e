"""Text of `--help`: the options of the scenario and the common ones; a part, or everything, on demand."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.commandline.backendnotes import backend_notes
from tfaip.params.commandline.flagtexts import NO_BREAK, help_text, range_text, title_of, type_text, value_text
from tfaip.params.commandline.helplines import FlagLine, all_nodes, declaring_class, flag_lines, mentions
from tfaip.params.names.suggestions import did_you_mean
from tfaip.params.names.trust import OWN_PACKAGE, top_package
from tfaip.params.resolver import Entry, Group, Leaf, Node
from tfaip.params.types.kinds import origin_of
from tfaip.params.unknown import flags_of_other_classes
from tfaip.util.text import shorten

ALL = "all"
_MIN_WIDTH, _MAX_WIDTH = 40, 100
_GENERAL = "General options"


class HelpText:
    """Text of `--help`, with the flags and values as they are after the other arguments.

    Args:
        prog: the command as the user types it.
        description: of the command.
        options: flags outside of any params class.
        roots: resolved trees.
        home: module of the scenario: what its package declares is shown first.
        with_paths: show the Python path of each flag.
    """

    def __init__(
        self,
        prog: str,
        description: str,
        options: Sequence[Leaf],
        roots: Sequence[Node],
        home: str = "",
        with_paths: bool = False,
    ) -> None:
        self._prog = prog
        self._description = description
        self._options = options
        self._roots = roots
        self._package = f"{home.rpartition('.')[0] or home}."
        self._with_paths = with_paths
        self._width = max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size().columns))
        self._lines = [line for root in roots for line in flag_lines(root, root.name)]

    def text(self, topics: Sequence[str]) -> str:
        """Return the text.

        Args:
            topics: groups, flags, classes or words to explain; `all` for everything; none for the overview.

        Raises:
            UsageError: if nothing is known about a topic.
        """
        if ALL in topics:
            parts = [self._head(), self._general(), *self._sections(self._lines, by_class=True)]
        elif topics:
            parts = [part for topic in topics for part in self._about(topic.lstrip("-"))]
        else:
            parts = [self._head(), *self._overview(), self._general(), self._hint()]
        notes = [self._wrap(note, 0, 2) for note in backend_notes(self._roots)]
        return "\n\n".join("\n".join(part) for part in [*parts, *notes] if part)

    def _head(self) -> list[str]:
        usage = self._wrap(f"usage: {self._prog} [--flag value ...]", 0, 7)
        return [*usage, "", *self._wrap(self._description, 0, 0)] if self._description else usage

    def _general(self) -> list[str]:
        lines = [_GENERAL]
        for flag, text in _GENERAL_FLAGS:
            lines += [*self._wrap(flag, 2, 6), *self._wrap(text, 6, 6)]
        for option in self._options:
            lines += self._entry(option)
        return lines

    def _hint(self) -> list[str]:
        groups = dict.fromkeys(line.group for line in self._lines)
        if not groups:
            return []
        return self._wrap(f"More: --help GROUP ({', '.join(groups)}), --help WORD, --help all.", 0, 2)

    def _overview(self) -> Iterator[list[str]]:
        """Yield the sections with the scenario's own options, then the others, each with its common options."""
        first = [line for line in self._lines if self._is_own(line)]
        shown = [*first, *(line for line in self._lines if line.is_common and line not in first)]
        own = {line.group for line in first}
        rest = {line.group for line in shown} - own
        for groups in (own, rest):
            yield from self._sections([line for line in shown if line.group in groups], by_class=False)

    def _is_own(self, line: FlagLine) -> bool:
        """Return True for an option that a class of the scenario declares, or with which one is chosen."""
        entry, holder = line.entry, line.holder
        if holder is not None and self._is_own_class(declaring_class(origin_of(holder.cls), entry.name)):
            return True
        if isinstance(entry, Leaf) or entry.choice is None:
            return False
        is_choice = isinstance(entry, Group) or len(entry.choice.classes) > 1
        return is_choice and any(map(self._is_own_class, entry.choice.classes))

    def _is_own_class(self, cls: type) -> bool:
        module = f"{cls.__module__}."
        return top_package(module) != OWN_PACKAGE or module.startswith(self._package)

    def _about(self, topic: str) -> Iterator[list[str]]:
        """Yield the sections about a topic."""
        found = [line for line in self._lines if topic == line.group or f"{line.entry.flag}.".startswith(f"{topic}.")]
        options = [option for option in self._options if option.flag == topic]
        others: list[str] = []
        if not found and not options:
            found = [line for line in self._lines if line.is_about(topic)]
            options = [option for option in self._options if mentions(option, topic)]
            for flag, choice in flags_of_other_classes(self._roots, topic):
                others += self._wrap(f"--{flag} with {choice}", 2, 6)
        if not found and not options and not others:
            known = {name for line in self._lines for name in (line.group, line.entry.name, *line.class_names)}
            hint = did_you_mean(topic, known)
            raise UsageError(f"--help {shorten(topic)}: no flag, class or help text has this word{hint}")
        if options:
            yield [_GENERAL, *(text for option in options for text in self._entry(option))]
        yield from self._sections(found, by_class=True)
        if others:
            yield ["Flags of other classes", *others]

    def _sections(self, lines: Sequence[FlagLine], by_class: bool) -> Iterator[list[str]]:
        """Yield a section per group, with the number of flags that it leaves out, or one per node."""
        sections: dict[int | str, list[FlagLine]] = {}
        for line in lines:
            sections.setdefault(id(line.section) if by_class else line.group, []).append(line)
        for key, members in sections.items():
            node = members[0].section
            if not by_class and node.flag != key:
                node = next((item for item in all_nodes(self._roots) if item.flag == key), node)
            text = self._wrap(title_of(node), 0, 2)
            for member in members:
                text += self._entry(member.entry, member.path)
            hidden = 0 if by_class else sum(line.group == key for line in self._lines) - len(members)
            if hidden:
                text.append(f"  {hidden} more: --help {key}")
            yield text

    def _entry(self, entry: Entry, path: str = "") -> list[str]:
        lines = self._wrap(f"--{entry.flag} {type_text(entry)}{value_text(entry)}{range_text(entry)}", 2, 6)
        if path and self._with_paths:
            lines += self._wrap(f"Python: {path}", 6, 10)
        return lines + self._wrap(help_text(entry), 6, 6)

    def _wrap(self, text: str, first: int, rest: int) -> list[str]:
        indents: dict[str, Any] = {"initial_indent": " " * first, "subsequent_indent": " " * rest}
        lines = textwrap.wrap(text, self._width, break_on_hyphens=False, **indents)
        return [line.replace(NO_BREAK, " ") for line in lines]


_GENERAL_FLAGS = (
    ("--help, -h [GROUP | FLAG | WORD | all ...]", "Show a part of all flags, for the classes chosen by the others."),
    ("--python", "With --help: show the Python path of each flag, too."),
    ("--config FILE [FILE ...]", "Read flags from YAML or JSON; later files and flags win."),
    ("--trust PKG [PKG ...]", "Packages that files may name classes of, besides tfaip and the scenario's own."),
    ("--print_config", "Print all values and where they come from, as a config file."),
)
