"""Text of `--help`: the options of the scenario and the common ones; a part, or everything, on demand."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.common import is_common
from tfaip.params.config_output import shown_value, yaml_value
from tfaip.params.fieldtypes import expected, origin_of
from tfaip.params.limits import limits_of
from tfaip.params.names import did_you_mean
from tfaip.params.schema import Entry, Group, Leaf, Node
from tfaip.params.trust import top_package
from tfaip.params.unknown import flags_of_other_classes, is_flag
from tfaip.util.text import shorten

ALL = "all"
_BACKENDS = {"keras", "tensorflow", "jax"}
_MIN_WIDTH, _MAX_WIDTH = 40, 100
_TOOLKIT = "tfaip"
_GENERAL = "General options"
_NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, eq=False)
class _Line:
    """A flag of a tree.

    Args:
        entry: the flag.
        root: of the tree.
        holder: the node that has the field; None for the root itself.
        path: Python path, with the name of the root.
    """

    entry: Entry
    root: Node
    holder: Node | None
    path: str

    @property
    def section(self) -> Node:
        """The node below whose title the flag is shown."""
        if isinstance(self.entry, Node) and self.entry.cls is not None:
            return self.entry
        return self.holder or self.root

    @property
    def group(self) -> str:
        """The first part of the flag, also of flags that leave it out."""
        return self.section.flag.partition(".")[0]


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
        self._lines = [line for root in roots for line in _lines(root, root.name, root)]

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
        notes = [self._wrap(note, 0, 2) for note in _backend_notes(self._roots)]
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
        shown = [*first, *(line for line in self._lines if _is_common(line) and line not in first)]
        own = {line.group for line in first}
        rest = {line.group for line in shown} - own
        for groups in (own, rest):
            yield from self._sections([line for line in shown if line.group in groups], by_class=False)

    def _is_own(self, line: _Line) -> bool:
        """Return True for an option that a class of the scenario declares, or with which one is chosen."""
        entry, holder = line.entry, line.holder
        if holder is not None and self._is_own_class(_declaring(origin_of(holder.cls), entry.name)):
            return True
        if isinstance(entry, Leaf) or entry.choice is None:
            return False
        is_choice = isinstance(entry, Group) or len(entry.choice.classes) > 1
        return is_choice and any(map(self._is_own_class, entry.choice.classes))

    def _is_own_class(self, cls: type) -> bool:
        module = f"{cls.__module__}."
        return top_package(module) != _TOOLKIT or module.startswith(self._package)

    def _about(self, topic: str) -> Iterator[list[str]]:
        """Yield the sections about a topic."""
        found = [line for line in self._lines if topic == line.group or f"{line.entry.flag}.".startswith(f"{topic}.")]
        options = [option for option in self._options if option.flag == topic]
        others: list[str] = []
        if not found and not options:
            found = [line for line in self._lines if _mentions(line.entry, topic) or _is_of_class(line, topic)]
            options = [option for option in self._options if _mentions(option, topic)]
            for flag, choice in flags_of_other_classes(self._roots, topic):
                others += self._wrap(f"--{flag} with {choice}", 2, 6)
        if not found and not options and not others:
            known = {name for line in self._lines for name in (line.group, line.entry.name, *_class_names(line))}
            hint = did_you_mean(topic, known)
            raise UsageError(f"--help {shorten(topic)}: no flag, class or help text has this word{hint}")
        if options:
            yield [_GENERAL, *(text for option in options for text in self._entry(option))]
        yield from self._sections(found, by_class=True)
        if others:
            yield ["Flags of other classes", *others]

    def _sections(self, lines: Sequence[_Line], by_class: bool) -> Iterator[list[str]]:
        """Yield a section per group, with the number of flags that it leaves out, or one per node."""
        sections: dict[int | str, list[_Line]] = {}
        for line in lines:
            sections.setdefault(id(line.section) if by_class else line.group, []).append(line)
        for key, members in sections.items():
            node = members[0].section
            if not by_class and node.flag != key:
                node = next((item for item in _all_nodes(self._roots) if item.flag == key), node)
            text = self._wrap(_title(node), 0, 2)
            for member in members:
                text += self._entry(member.entry, member.path)
            hidden = 0 if by_class else sum(line.group == key for line in self._lines) - len(members)
            if hidden:
                text.append(f"  {hidden} more: --help {key}")
            yield text

    def _entry(self, entry: Entry, path: str = "") -> list[str]:
        lines = self._wrap(f"--{entry.flag} {_type_text(entry)}{_value_text(entry)}{_range_text(entry)}", 2, 6)
        if path and self._with_paths:
            lines += self._wrap(f"Python: {path}", 6, 10)
        return lines + self._wrap(_help_of(entry), 6, 6)

    def _wrap(self, text: str, first: int, rest: int) -> list[str]:
        indents: dict[str, Any] = {"initial_indent": " " * first, "subsequent_indent": " " * rest}
        lines = textwrap.wrap(text, self._width, break_on_hyphens=False, **indents)
        return [line.replace(_NO_BREAK, " ") for line in lines]


_GENERAL_FLAGS = (
    ("--help, -h [GROUP | FLAG | WORD | all ...]", "Show a part of all flags, for the classes chosen by the others."),
    ("--python", "With --help: show the Python path of each flag, too."),
    ("--config FILE [FILE ...]", "Read flags from YAML or JSON; later files and flags win."),
    ("--trust PKG [PKG ...]", "Packages that files may name classes of, besides tfaip and the scenario's own."),
    ("--print_config", "Print all values and where they come from, as a config file."),
)


def _lines(node: Node, path: str, root: Node, holder: Node | None = None) -> Iterator[_Line]:
    """Yield the flags of a node, those of nodes below it last."""
    if is_flag(node):
        yield _Line(node, root, holder, path)
    yield from _fields(node, path, root)


def _fields(node: Node, path: str, root: Node) -> Iterator[_Line]:
    # Nodes follow after all flags of this one, so that the flags of a class stay together.
    inner: list[Iterator[_Line]] = []
    for entry in node.entries:
        below = f"{path}.{entry.name}"
        if isinstance(entry, Node) and entry.cls is not None:
            inner.append(_lines(entry, below, root, node))
            continue
        yield _Line(entry, root, node, below)
        if isinstance(entry, Group):
            for item in entry.items or ():
                key = repr(item.name) if entry.keyed else item.name
                inner.append(_fields(item, f"{below}[{key}]", root))
    for lines in inner:
        yield from lines


def _is_common(line: _Line) -> bool:
    return is_common(line.entry.meta) or (isinstance(line.entry, Leaf) and line.entry.required)


def _declaring(cls: type, name: str) -> type:
    """Return the class that introduces a field."""
    for base in reversed(cls.__mro__):
        if name in vars(base).get("__annotations__", {}):
            return base
    return cls


def _mentions(entry: Entry, topic: str) -> bool:
    """Return True if the flag contains a text, or a word of the help text begins with it."""
    if topic.lower() in entry.flag.lower():
        return True
    return re.search(rf"\b{re.escape(topic)}", _help_of(entry), re.IGNORECASE) is not None


def _is_of_class(line: _Line, topic: str) -> bool:
    """Return True if the name of the class in the heading, or of a chosen one, begins with a text."""
    return any(name.lower().startswith(topic.lower()) for name in _class_names(line))


def _class_names(line: _Line) -> list[str]:
    nodes = [line.section, *((line.entry.items or ()) if isinstance(line.entry, Group) else ())]
    return [origin_of(node.cls).__name__ for node in nodes if node.cls is not None]


def _title(node: Node) -> str:
    """Return class, flag, and first paragraph of the docstring."""
    cls = origin_of(node.declared if node.cls is None else node.cls)
    text = summary_of(cls)
    title = f"{cls.__name__} (--{node.flag})"
    return f"{title}: {text}" if text else title


def described(cls: type) -> str:
    """Return the name of a class and the summary of its docstring."""
    text = summary_of(cls)
    return f"{cls.__name__}: {text}" if text else f"{cls.__name__}."


def summary_of(cls: type) -> str:
    """Return the first paragraph of the docstring of a class, on one line; "" if it has none."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n\n")[0]
    if text.startswith(f"{cls.__name__}("):  # written by @dataclass where the class has no docstring
        return ""
    return " ".join(text.split())


def _nodes(node: Node) -> Iterator[Node]:
    """Yield the nodes of a tree that are objects."""
    if node.cls is None:
        return
    yield node
    for entry in node.entries:
        if isinstance(entry, Node):
            yield from _nodes(entry)
        elif isinstance(entry, Group):
            for item in entry.items or ():
                yield from _nodes(item)


def _all_nodes(roots: Sequence[Node]) -> list[Node]:
    return [node for root in roots for node in _nodes(root)]


def _backend_notes(roots: Sequence[Node]) -> Iterator[str]:
    """Yield a line for each module of the user that imports a backend: commands wait for it."""
    packages = {top_package(origin_of(node.cls).__module__) for node in _all_nodes(roots)} - {"tfaip"}
    for name, module in sorted(sys.modules.items()):
        if top_package(name) not in packages:
            continue
        # A module is imported as itself, or by a class or function that is defined in it.
        values = list(vars(module).values())
        homes = [value.__name__ for value in values if isinstance(value, ModuleType)]
        homes += [str(value.__module__) for value in values if isinstance(value, type | FunctionType)]
        found = sorted(_BACKENDS & set(map(top_package, homes)))
        if found:
            yield (
                f"note: {name} imports {' and '.join(found)}, which --help and data workers wait for: import it within "
                "the methods that need it"
            )


def described_flag(entry: Entry) -> tuple[str, str]:
    """Return the kind of the values of a flag, and its help text with choices and value."""
    return _type_text(entry), f"{_help_of(entry)}{_value_text(entry)}{_range_text(entry)}".strip()


def _help_of(entry: Entry) -> str:
    text = entry.help
    if text and text[-1] not in ".!?":
        text += "."
    if isinstance(entry, Leaf):
        if entry.meta.get("choices"):
            text += f" Choices: {', '.join(map(str, entry.meta['choices']))}."
    elif entry.choice is None:
        text += " The values of its first fields, in their order."
    else:
        more = "" if entry.choice.enforced else ", or module:Class"
        text += f" Choices: {', '.join(entry.choice.names())}{more}."
    return text.strip()


def _type_text(entry: Entry) -> str:
    if isinstance(entry, Leaf):
        return "bool" if entry.declared is bool else expected(entry.declared)
    if isinstance(entry, Group):
        return "KEY=CLASS ..." if entry.keyed else "CLASS ..."
    if entry.choice is not None:
        return "CLASS"
    return " ".join(leaf.name.upper() for leaf in entry.entries if isinstance(leaf, Leaf))


def _range_text(entry: Entry) -> str:
    """Return the range of a number in parentheses; "" if there is none."""
    limits = limits_of(entry.owner, entry.name) if isinstance(entry, Leaf) and entry.owner is not None else None
    text = limits.range_text() if limits is not None else ""
    return f" ({text})".replace(" ", _NO_BREAK).replace(_NO_BREAK, " ", 1) if text else ""


def _value_text(entry: Entry) -> str:
    if not isinstance(entry, Group) and entry.required:
        return " (required)"
    if isinstance(entry, Node) and entry.choice is None:
        return ""  # its fields show their values
    try:
        value = shown_value(entry)
    except TypeError:
        return ""  # a default that params cannot store
    text = str(value) if value is None or isinstance(value, bool) else yaml_value(value)
    return f" ={_NO_BREAK}{text}"
