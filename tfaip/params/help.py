"""Text of `--help`: flags grouped by params class, with types, values and help."""

from __future__ import annotations

import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

from tfaip.params.config_output import shown_value, yaml_value
from tfaip.params.fieldtypes import expected, origin_of
from tfaip.params.schema import Entry, Group, Leaf, Node
from tfaip.params.trust import top_package

_BACKENDS = {"keras", "tensorflow", "jax"}
_MIN_WIDTH, _MAX_WIDTH = 40, 100


def help_text(prog: str, description: str, options: Sequence[Leaf], roots: Sequence[Node]) -> str:
    """Return the text, with the flags and values as they are after the other arguments.

    Args:
        prog: the command as the user types it.
        description: of the command.
        options: flags outside of any params class.
        roots: resolved trees.
    """
    width = max(_MIN_WIDTH, min(_MAX_WIDTH, shutil.get_terminal_size().columns))
    lines = [*_wrapped(f"usage: {prog} [--flag value ...]", width, 0, 7)]
    if description:
        lines += ["", *_wrapped(description, width, 0, 0)]
    lines += ["", "Options"]
    for flag, text in _GENERAL:
        lines += [f"  {flag}", *_wrapped(text, width, 6, 6)]
    for option in options:
        lines += _entry_lines(option, width)
    for root in roots:
        lines += _node_lines(root, width)
    for note in _backend_notes(roots):
        lines += ["", *_wrapped(note, width, 0, 2)]
    return "\n".join(lines)


_GENERAL = (
    ("--help, -h", "Show this text, for the classes chosen by the other flags."),
    ("--config FILE [FILE ...]", "Read flags from YAML or JSON; later files and flags win."),
    ("--trust PKG [PKG ...]", "Packages that files may name classes of, besides tfaip and the scenario's own."),
    ("--print_config", "Print all values and where they come from, as a config file."),
)


def _node_lines(node: Node, width: int, is_item: bool = False) -> Iterator[str]:
    if node.choice is not None or any(not isinstance(entry, Node) for entry in node.entries):
        yield ""
        yield from _wrapped(_title(node), width, 0, 2)
    if (node.choice is not None or node.meta.get("tuple_like")) and not is_item:
        yield from _entry_lines(node, width)
    # Nodes follow after all flags of this one, so that the flags of a class stay together.
    inner: list[tuple[Node, bool]] = []
    for entry in node.entries:
        if isinstance(entry, Node) and entry.cls is not None:
            inner.append((entry, False))
            continue
        yield from _entry_lines(entry, width)
        if isinstance(entry, Group):
            inner += [(item, True) for item in entry.items or ()]
    for below, below_is_item in inner:
        yield from _node_lines(below, width, below_is_item)


def _title(node: Node) -> str:
    """Return class, flag, and first paragraph of the docstring."""
    cls = origin_of(node.cls)
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


def _backend_notes(roots: Sequence[Node]) -> Iterator[str]:
    """Yield a line for each module of the user that imports a backend: commands wait for it."""
    nodes = [node for root in roots for node in _nodes(root)]
    packages = {top_package(origin_of(node.cls).__module__) for node in nodes} - {"tfaip"}
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


def _entry_lines(entry: Entry, width: int) -> Iterator[str]:
    yield from _wrapped(f"--{entry.flag} {_type_text(entry)}{_value_text(entry)}", width, 2, 6)
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
    yield from _wrapped(text.strip(), width, 6, 6)


def _type_text(entry: Entry) -> str:
    if isinstance(entry, Leaf):
        return "bool" if entry.declared is bool else expected(entry.declared)
    if isinstance(entry, Group):
        return "KEY=CLASS ..." if entry.keyed else "CLASS ..."
    if entry.choice is not None:
        return "CLASS"
    return " ".join(leaf.name.upper() for leaf in entry.entries if isinstance(leaf, Leaf))


def _value_text(entry: Entry) -> str:
    if not isinstance(entry, Group) and entry.required:
        return " (required)"
    if isinstance(entry, Node) and entry.choice is None:
        return ""  # its fields show their values
    try:
        value = shown_value(entry)
    except TypeError:
        return ""  # a default that params cannot store
    if value is None or isinstance(value, bool):
        return f" = {value}"
    return f" = {yaml_value(value)}"


def _wrapped(text: str, width: int, first: int, rest: int) -> list[str]:
    indents: dict[str, Any] = {"initial_indent": " " * first, "subsequent_indent": " " * rest}
    return textwrap.wrap(text, width, break_on_hyphens=False, **indents)
