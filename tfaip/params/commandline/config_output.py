"""Output of `--print_config`: a config file in YAML, with the origin of each value."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from tfaip.params.choices import ClassChoice
from tfaip.params.codec import encode, json_option
from tfaip.params.resolver import MISSING, Entry, Leaf, Node, Resolver, walk_entries
from tfaip.params.sources import Settings
from tfaip.params.types import origin_of

DERIVED = "derived"

_PLAIN = re.compile(r"[A-Za-z_/][\w./+-]*", re.ASCII)
# Words that mean booleans, None or numbers, here or in YAML 1.1.
_NOT_TEXT = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "inf", "infinity", "nan"}


def config_lines(roots: Sequence[Node], values: Mapping[str, Any]) -> Iterator[str]:
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
        return _yaml_float(value)
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def yaml_text(text: str) -> str:
    """Return a string in YAML, quoted if it could be read as something else."""
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return '"' + "".join(map(_yaml_character, text)) + '"'


def _yaml_character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return f"\\U{ord(character):08x}"


def _yaml_float(value: float) -> str:
    if math.isnan(value):
        return ".nan"
    if math.isinf(value):
        return ".inf" if value > 0 else "-.inf"
    mantissa, exponent, power = repr(value).partition("e")
    # YAML 1.1 reads 1e-05 as a string.
    return f"{mantissa}.0e{power}" if exponent and "." not in mantissa else repr(value)


def _flags(root: Node) -> Iterator[tuple[str, str, str]]:
    for entry in walk_entries(root):
        if isinstance(entry, Node) and entry.choice is None:
            continue
        yield entry.flag, yaml_value(shown_value(entry, ClassChoice.lasting_name_of)), entry.origin


def shown_value(entry: Entry, name_of: Callable[[ClassChoice, type], str] = ClassChoice.name_of) -> Any:
    """Return an entry as a config file has it: plain values, and classes by name.

    Args:
        entry: of a resolved tree.
        name_of: returns the name of a class.

    Raises:
        TypeError: the value of a leaf cannot be written.
    """
    if isinstance(entry, Leaf):
        encoder = json_option(entry.meta, "encoder")
        value = entry.value if encoder is None or entry.value is MISSING else encoder(entry.value)
        return encode(value, None, f"--{entry.flag}")
    if isinstance(entry, Node):
        if entry.choice is None or entry.cls is None:
            return None
        return name_of(entry.choice, origin_of(entry.cls))
    if entry.items is None:
        return None
    names = {item.name: name_of(entry.choice, origin_of(item.cls)) for item in entry.items}
    return names if entry.keyed else list(names.values())
