"""Text of `--help`: the options of the scenario and the common ones; a part, or everything, on demand."""

import dataclasses
import inspect
import json
import math
import re
import shutil
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.choices import ClassChoice
from tfaip.params.codec import encode, is_other_word
from tfaip.params.fields import limits_of, versions_of
from tfaip.params.names import OWN_PACKAGE, did_you_mean, top_package
from tfaip.params.resolver import Entry, Resolver, walk_entries
from tfaip.params.settings import flags_of_other_classes
from tfaip.params.sources import Settings
from tfaip.params.types import expected, object_type, origin_of
from tfaip.util.text import shorten

_MIN_WIDTH, _MAX_WIDTH = 40, 100
_NO_BREAK = "\N{NO-BREAK SPACE}"
_GENERAL = "General options"
# Name of each flag that every params parser has -> what follows it, and its help text.
GENERAL_FLAGS = {
    "help": (", -h [GROUP | FLAG | WORD | all ...]", "Show a part of all flags, for the classes chosen by the others."),
    "python": ("", "With --help: show the Python path of each flag, too."),
    "config": (" FILE [FILE ...]", "Read flags from YAML or JSON; later files and flags win."),
    "trust": (" PKG [PKG ...]", "Packages that files may name classes of, besides tfaip and the scenario's own."),
    "print_config": ("", "Print all values and where they come from, as a config file."),
}


def described(cls: type) -> str:
    """Return the name of a class and the summary of its docstring."""
    text = _summary_of(cls)
    return f"{cls.__name__}: {text}" if text else f"{cls.__name__}."


def _summary_of(cls: type) -> str:
    """Return the first paragraph of the docstring of a class, on one line; "" if it has none."""
    text = inspect.cleandoc(vars(cls).get("__doc__") or "").partition("\n\n")[0]
    if text.startswith(f"{cls.__name__}("):  # written by @dataclass where the class has no docstring
        return ""
    return " ".join(text.split())


def described_flag(entry: Entry) -> tuple[str, str]:
    """Return the kind of the values of a flag, and its help text with choices and value."""
    return _type_text(entry), f"{_help_text(entry)}{_value_text(entry)}{_range_text(entry)}".strip()


def _help_text(entry: Entry) -> str:
    text = entry.help
    if text and text[-1] not in ".!?":
        text += "."
    if entry.kind == "leaf":
        objects = object_type(entry.declared)
        if objects is not None:
            item = ".0" if "list[" in expected(entry.declared) else ""
            text += f" {objects.choices}. Its arguments: --{entry.flag}{item}.NAME."
        if entry.meta.get("choices"):
            text += f" Choices: {', '.join(map(str, entry.meta['choices']))}."
    elif entry.choice is not None:
        shown = ", ".join(entry.choice.names())
        more = "" if entry.choice.enforced else ", or module:Class" if shown else "module:Class"
        text += f" Choices: {shown}{more}."
    return text.strip()


def _type_text(entry: Entry) -> str:
    if entry.kind == "leaf":
        return "bool" if entry.declared is bool else expected(entry.declared)
    return {"node": "CLASS", "list": "CLASS ...", "dict": "KEY=CLASS ..."}[entry.kind]


def _range_text(entry: Entry) -> str:
    """Return the range of a number in parentheses; "" if there is none."""
    limits = limits_of(entry.owner, entry.name) if entry.owner is not None else None
    text = limits.range_text() if limits is not None else ""
    return " " + f"({text})".replace(" ", _NO_BREAK) if text else ""


def _value_text(entry: Entry) -> str:
    if entry.required:
        return " (required)"
    try:
        value = shown_value(entry)
    except TypeError:
        return ""  # a default that params cannot store
    text = str(value) if value is None or isinstance(value, bool) else yaml_value(value)
    return f" ={_NO_BREAK}{text}"


def _section(entry: Entry) -> Entry:
    """Return the node below whose title a flag is shown."""
    return entry if entry.is_object or entry.parent is None else entry.parent


def _group(entry: Entry) -> str:
    """Return the first part of a flag, also of flags that leave it out."""
    return _section(entry).flag.partition(".")[0]


def _is_common(entry: Entry) -> bool:
    """Return True for an option that most users set."""
    versions = [] if entry.owner is None else versions_of(entry.owner, entry.name)
    metas = [entry.meta, *(version.metadata for version in versions)]
    return any(meta.get("common") for meta in metas) or (entry.kind == "leaf" and entry.required)


def _class_names(entry: Entry) -> list[str]:
    """Return the names of the class in the heading of a flag, and of chosen ones."""
    nodes = [_section(entry), *(entry.entries if entry.is_group else ())]
    return [origin_of(node.cls).__name__ for node in nodes if node.cls is not None]


def _lines(node: Entry) -> Iterator[Entry]:
    """Yield the flags of a node that is an object; those of nodes below it last, so that a class stays together."""
    if node.is_flag:
        yield node
    inner: list[Entry] = []
    for entry in node.entries:
        if entry.is_object:
            inner.append(entry)
        else:
            yield entry
            inner += entry.entries
    for entry in inner:
        yield from _lines(entry)


def _is_about(entry: Entry, topic: str) -> bool:
    """Return True if the flag contains a topic, or a word of the help text or the name of a class begins with it."""
    text = " ".join([*_class_names(entry), _help_text(entry)])
    is_word = re.search(rf"\b{re.escape(topic)}", text, re.IGNORECASE) is not None
    return is_word or topic.lower() in entry.flag.lower()


@dataclasses.dataclass
class HelpText:
    """Text of `--help`, with the flags and values as they are after the other arguments.

    Args:
        description: of the command.
        options: flags outside of any params class.
        home: module of the scenario: what its package declares is shown first.
        with_paths: show the Python path of each flag.
    """

    prog: str
    description: str
    options: Sequence[Entry]
    roots: Sequence[Entry]
    home: str = ""
    with_paths: bool = False

    def __post_init__(self) -> None:
        self._nodes = [entry for entry in walk_entries(*self.roots) if entry.is_object]
        self._width = max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size().columns))
        self._lines = [line for root in self.roots for line in _lines(root)]

    def text(self, topics: Sequence[str]) -> str:
        """Return the text.

        Args:
            topics: groups, flags, classes or words to explain; `all` for everything; none for the overview.

        Raises:
            UsageError: if nothing is known about a topic.
        """
        if "all" in topics:
            parts = [self._head(), self._general(), *self._sections(self._lines, by_class=True)]
        elif topics:
            parts = [part for topic in topics for part in self._about(topic.lstrip("-"))]
        else:
            parts = [self._head(), *self._overview(), self._general()]
            groups = dict.fromkeys(_group(line) for line in self._lines)
            if groups:
                parts += [self._wrap(f"More: --help GROUP ({', '.join(groups)}), --help WORD, --help all.", 0, 2)]
        return "\n\n".join(map("\n".join, parts))

    def _head(self) -> list[str]:
        usage = self._wrap(f"usage: {self.prog} [--flag value ...]", 0, 7)
        return [*usage, "", *self._wrap(self.description, 0, 0)] if self.description else usage

    def _general(self) -> list[str]:
        lines = [_GENERAL]
        for name, (values, text) in GENERAL_FLAGS.items():
            lines += [*self._wrap(f"--{name}{values}", 2, 6), *self._wrap(text, 6, 6)]
        for option in self.options:
            lines += self._entry(option)
        return lines

    def _overview(self) -> Iterator[list[str]]:
        """Yield the sections with the scenario's own options, then the others, each with its common options."""
        first = [line for line in self._lines if self._is_own(line)]
        shown = [*first, *(line for line in self._lines if _is_common(line) and line not in first)]
        own = {_group(line) for line in first}
        for is_first in (True, False):
            yield from self._sections([line for line in shown if (_group(line) in own) is is_first], by_class=False)

    def _is_own(self, entry: Entry) -> bool:
        """Return True for an option that a class of the scenario declares, or with which one is chosen."""
        bases = reversed(() if entry.owner is None else entry.owner.__mro__)
        declaring = [base for base in bases if entry.name in inspect.get_annotations(base)]
        if declaring and self._is_own_class(declaring[0]):
            return True
        if entry.choice is None:
            return False
        is_choice = entry.is_group or len(entry.choice.classes) > 1
        return is_choice and any(map(self._is_own_class, entry.choice.classes))

    def _is_own_class(self, cls: type) -> bool:
        module = f"{cls.__module__}."
        return top_package(module) != OWN_PACKAGE or module.startswith(f"{self.home.rpartition('.')[0] or self.home}.")

    def _about(self, topic: str) -> Iterator[list[str]]:
        """Yield the sections about a topic."""
        found = [line for line in self._lines if topic == _group(line) or f"{line.flag}.".startswith(f"{topic}.")]
        options = [option for option in self.options if option.flag == topic]
        others: list[str] = []
        if not found and not options:
            found = [line for line in self._lines if _is_about(line, topic)]
            options = [option for option in self.options if _is_about(option, topic)]
            for flag, node, name in flags_of_other_classes(self.roots):
                if topic.lower() in flag.rpartition(".")[2].lower():
                    others += self._wrap(f"--{flag} with --{node.flag} {name}", 2, 6)
        if not found and not options and not others:
            known = {name for line in self._lines for name in (_group(line), line.name, *_class_names(line))}
            hint = did_you_mean(topic, known)
            raise UsageError(f"--help {shorten(topic)}: no flag, class or help text has this word{hint}")
        if options:
            yield [_GENERAL, *(text for option in options for text in self._entry(option))]
        yield from self._sections(found, by_class=True)
        if others:
            yield ["Flags of other classes", *others]

    def _sections(self, lines: Sequence[Entry], by_class: bool) -> Iterator[list[str]]:
        """Yield a section per group, with the number of flags that it leaves out, or one per node."""
        sections: dict[int | str, list[Entry]] = {}
        for line in lines:
            sections.setdefault(id(_section(line)) if by_class else _group(line), []).append(line)
        for key, members in sections.items():
            node = _section(members[0])
            if not by_class and node.flag != key:
                node = next((item for item in self._nodes if item.flag == key), node)
            cls = origin_of(node.declared if node.cls is None else node.cls)
            title, summary = f"{cls.__name__} (--{node.flag})", _summary_of(cls)
            text = self._wrap(f"{title}: {summary}" if summary else title, 0, 2)
            for member in members:
                text += self._entry(member, member.path)
            hidden = 0 if by_class else sum(_group(line) == key for line in self._lines) - len(members)
            if hidden:
                text.append(f"  {hidden} more: --help {key}")
            yield text

    def _entry(self, entry: Entry, path: str = "") -> list[str]:
        lines = self._wrap(f"--{entry.flag} {_type_text(entry)}{_value_text(entry)}{_range_text(entry)}", 2, 6)
        if path and self.with_paths:
            lines += self._wrap(f"Python: {path}", 6, 10)
        return lines + self._wrap(_help_text(entry), 6, 6)

    def _wrap(self, text: str, first: int, rest: int) -> list[str]:
        indents: dict[str, Any] = {"initial_indent": " " * first, "subsequent_indent": " " * rest}
        lines = textwrap.wrap(text, self._width, break_on_hyphens=False, **indents)
        return [line.replace(_NO_BREAK, " ") for line in lines]


# --- Config files as `--print_config` writes them

DERIVED = "derived"

_PLAIN = re.compile(r"[A-Za-z_/][\w./+-]*", re.ASCII)


def config_lines(roots: Sequence[Entry], values: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per flag: `flag: value  # origin`.

    Args:
        roots: as they were resolved.
        values: name of each root -> the object that was built from it, after all `__post_init__`.
    """
    for root in roots:
        # Flag -> value and origin before any __post_init__.
        before = {flag: (text, origin) for flag, text, origin in _flags(root)}
        # Of the finished object, since __post_init__ may have changed anything.
        final = Resolver(Settings()).root(root.name, root.declared, values[root.name], root.meta)
        for flag, text, _ in _flags(final):
            old_text, origin = before.get(flag, (text, DERIVED))
            yield f"{yaml_text(flag)}: {text}  # {origin if text == old_text else DERIVED}"


def yaml_value(value: Any) -> str:
    """Return a plain value (see `encode`) in the flow style of YAML: one line."""
    if isinstance(value, dict):
        items = (f"{yaml_text(key)}: {yaml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(yaml_value, value)) + "]"
    if isinstance(value, str):
        return yaml_text(value)
    if isinstance(value, float):
        mantissa, exponent, power = repr(value).partition("e")
        # YAML 1.1 reads 1e-05 as a string.
        text = f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)
        return text if math.isfinite(value) else text.replace("inf", ".inf").replace("nan", ".nan")
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def yaml_text(text: str) -> str:
    """Return a string in YAML, quoted if it could be read as something else."""
    if _PLAIN.fullmatch(text) and not is_other_word(text):
        return text
    # Not the escapes of JSON: to YAML, two of them are never one character.
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def _flags(root: Entry) -> Iterator[tuple[str, str, str]]:
    for entry in filter(attrgetter("is_flag"), walk_entries(root)):
        origin = "default" if entry.source is None else entry.source.name
        yield entry.flag, yaml_value(shown_value(entry, ClassChoice.lasting_name_of)), origin


def shown_value(entry: Entry, name_of: Callable[[ClassChoice, type], str] = ClassChoice.name_of) -> Any:
    """Return an entry as a config file has it: plain values, and classes by name.

    Args:
        entry: of a resolved tree.
        name_of: returns the name of a class.

    Raises:
        TypeError: the value of a leaf cannot be written.
    """
    if entry.kind == "leaf":
        return encode(entry.value, None, f"--{entry.flag}")
    if entry.choice is None or entry.cls is None:
        return None
    if entry.kind == "node":
        return name_of(entry.choice, origin_of(entry.cls))
    names = {item.name: name_of(entry.choice, origin_of(item.cls)) for item in entry.entries}
    return names if entry.kind == "dict" else list(names.values())
