"""Texts of flags and classes: type, help, range and value."""

from __future__ import annotations

import inspect

from tfaip.params.commandline.config_output import shown_value, yaml_value
from tfaip.params.limits import limits_of
from tfaip.params.resolver import Entry, Group, Leaf, Node
from tfaip.params.types.kinds import expected, origin_of
from tfaip.params.types.objects import object_type

NO_BREAK = "\N{NO-BREAK SPACE}"


def title_of(node: Node) -> str:
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


def described_flag(entry: Entry) -> tuple[str, str]:
    """Return the kind of the values of a flag, and its help text with choices and value."""
    return type_text(entry), f"{help_text(entry)}{value_text(entry)}{range_text(entry)}".strip()


def help_text(entry: Entry) -> str:
    text = entry.help
    if text and text[-1] not in ".!?":
        text += "."
    if isinstance(entry, Leaf):
        objects = object_type(entry.declared)
        if objects is not None:
            item = ".0" if "list[" in expected(entry.declared) else ""
            text += f" {objects.choices}. Its arguments: --{entry.flag}{item}.NAME."
        if entry.meta.get("choices"):
            text += f" Choices: {', '.join(map(str, entry.meta['choices']))}."
    elif entry.choice is None:
        text += " The values of its first fields, in their order."
    else:
        more = "" if entry.choice.enforced else ", or module:Class"
        text += f" Choices: {', '.join(entry.choice.names())}{more}."
    return text.strip()


def type_text(entry: Entry) -> str:
    if isinstance(entry, Leaf):
        return "bool" if entry.declared is bool else expected(entry.declared)
    if isinstance(entry, Group):
        return "KEY=CLASS ..." if entry.keyed else "CLASS ..."
    if entry.choice is not None:
        return "CLASS"
    return " ".join(leaf.name.upper() for leaf in entry.entries if isinstance(leaf, Leaf))


def range_text(entry: Entry) -> str:
    """Return the range of a number in parentheses; "" if there is none."""
    limits = limits_of(entry.owner, entry.name) if isinstance(entry, Leaf) and entry.owner is not None else None
    text = limits.range_text() if limits is not None else ""
    return " " + f"({text})".replace(" ", NO_BREAK) if text else ""


def value_text(entry: Entry) -> str:
    if not isinstance(entry, Group) and entry.required:
        return " (required)"
    if isinstance(entry, Node) and entry.choice is None:
        return ""  # its fields show their values
    try:
        value = shown_value(entry)
    except TypeError:
        return ""  # a default that params cannot store
    text = str(value) if value is None or isinstance(value, bool) else yaml_value(value)
    return f" ={NO_BREAK}{text}"
