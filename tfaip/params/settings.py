"""Settings of a params tree: every value that a command line, a file, a stage or a program sets is set here.

A setting has a flag, a value and its origin. The flags are those of the command that has the tree; those of another
tree begin with the names of its fields.
"""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import PurePath
from typing import Any, ClassVar, TypeVar, get_args

from tfaip.errors import UsageError
from tfaip.params import names, tree as trees
from tfaip.params.choices import full_name
from tfaip.params.classes import ParamsBase
from tfaip.params.codec import Decoder, Text, encode, is_own_default
from tfaip.params.fields import FieldError, copied
from tfaip.params.resolver import Entry, Resolver, walk_entries
from tfaip.params.resource import Resource
from tfaip.params.sources import Flags, Settings, Source
from tfaip.params.stored import flat_params
from tfaip.params.types import NamedObject, field_types, is_node_type, origin_of, type_name
from tfaip.util.text import shorten, shorten_text

T = TypeVar("T")

_FIXED = {"fix_dc": True}


def root_of(params: Any) -> str:
    """Return the name that begins the flags of a tree; empty if it is not the tree of a command."""
    return getattr(type(params), "flag_root", "")


def apply(tree: T, values: Mapping[str, Any]) -> T:
    """Return a copy of a tree with other values.

    Classes are chosen before their fields are set, whatever the order. Values that are not given stay the same objects,
    and a node in two places stays one node. `__post_init__` runs once, at the end.

    Args:
        tree: stays as it is.
        values: as `set_flags` takes them.

    Raises:
        UsageError: an unknown flag, or a value that does not fit; what the command would print.
    """
    built: T = build(_resolve(copied(tree), values))
    return built


def build(root: Entry) -> Any:
    """Build the objects of a resolved tree, and check them.

    Raises:
        UsageError: if one of them refuses its values.
    """
    built = root.construct()
    check(built, root.flag, {entry.flag: entry.source for entry in walk_entries(root)})
    return built


def check(params: Any, root: str, sources: Mapping[str, Source | None] = {}) -> None:
    """Check all limits of a tree and run every `__post_init__`, children first, so that nodes can share values.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.
        sources: flag -> where its value comes from, for messages.

    Raises:
        FieldError: if a value is not allowed, or a `__post_init__` fails; the message names the flag.
    """
    with flags_of(params, root, sources=sources):
        trees.post_init(params)


@contextlib.contextmanager
def flags_of(params: Any, root: str, path: str = "", sources: Mapping[str, Source | None] = {}) -> Iterator[None]:
    """Context that adds its flag to the error of a field of a tree.

    Args:
        root: name of the root, which begins its flags.
        path: dotted path of the object that the block checks, if it is not the root.
        sources: flag -> where its value comes from.
    """
    try:
        yield
    except FieldError as error:
        if not error.flags:  # else a context within this one knew more
            if path:
                error.move_below(path)
            error.flags = [_label(params, trees.Place.of_root(root), sources, field) for field in error.paths]
        raise


def _label(value: Any, place: trees.Place, sources: Mapping[str, Source | None], path: str) -> str:
    """Return the flag of a field at a path, with the file that gives its value; the path if there is no such field."""
    for name in path.split("."):
        parts = trees.children(value) or {}
        if name not in parts and name != "*":
            return path
        place, value = place.below(name, value), parts.get(name)
    source = sources.get(place.flag)
    return place.label if source is None or source.dashes else f"{place.flag} in {shorten_text(source.name)}"


def flag_values(params: Any) -> dict[str, Any]:
    """Return the values of a tree by their flags, as for the config of a tracking service.

    Args:
        params: a tree. Flags of one without a command begin with the names of its fields.

    Returns:
        Flag without dashes -> value; the classes that a flag chooses are left out.
    """
    found: dict[str, Any] = {}
    for flag, value in _flags(params):
        if trees.children(value) is None:
            found[flag] = str(value.name) if isinstance(value, NamedObject) else value
    return found


def get_flag(params: Any, flag: str) -> Any:
    """Return the value, or the object, that a flag sets.

    Args:
        params: a tree. Flags of one without a command begin with the names of its fields.
        flag: with or without dashes.

    Raises:
        UsageError: if there is no such flag.
    """
    name = flag.lstrip("-")
    for known, value in _flags(params):
        if known == name:
            return value
    raise UsageError(f"unknown flag --{shorten_text(name)}{_hint(name, [_resolve(params, {})], (), '--')}")


def set_flags(params: Any, values: Mapping[str, Any]) -> None:
    """Set values by their flags, as a command line does: either all or, after an error, none.

    Args:
        params: a tree; it is changed, and every `__post_init__` runs again. Flags of one without a
            command begin with the names of its fields.
        values: flag, with or without dashes -> a value of the field's type, or the text that would follow the flag on a
            command line. A class is chosen by its name, by itself or by an object of it.

    Raises:
        UsageError: an unknown flag, or a value that does not fit; what the command would print.
    """
    # On copies first: an error leaves everything as it was.
    apply(params, copied(dict(values)))
    build(_resolve(params, values))


def _flags(params: Any) -> Iterator[tuple[str, Any]]:
    """Yield every flag, also those of the arguments of an object, with its value or object."""
    for place, value in trees.walk_places(params, trees.Place.of_root(root_of(params))):
        if not place.is_hidden:
            yield place.flag, value
            if isinstance(value, NamedObject):
                yield from ((f"{place.flag}.{name}", item) for name, item in value.arguments.items())


def _resolve(params: Any, values: Mapping[str, Any]) -> Entry:
    """Return a tree with values of a program, as a command line gives them; `construct` sets them in it."""
    names_of = {flag.lstrip("-"): value for flag, value in values.items()}
    settings = Settings([Flags({flag: _given(value, flag) for flag, value in names_of.items()})])
    root = Resolver(settings).root(root_of(params), type(params), params, _FIXED)
    refuse_unknown(settings, [root])
    return root


def _given(value: Any, flag: str) -> Any:
    """Return a value as a config file has it; a text as on a command line; params as they are."""
    if trees.children(value) is not None:
        return value
    if isinstance(value, type):
        return full_name(value)
    if isinstance(value, str) and not isinstance(value, Enum):
        return Text(value)
    return value if isinstance(value, Text) else encode(value, None, f"--{flag}")


class UnknownFlag(UsageError):
    """A key of a config file that no params have."""


def refuse_unknown(settings: Settings, roots: Sequence[Entry], general: Sequence[str] = ()) -> None:
    """Raise if something was given that no field has asked for; what was given for a removed field is only logged.

    Args:
        settings: all sources, after the roots were resolved from them.
        general: further flags.

    Raises:
        UsageError: if a flag or key is unknown; the message suggests near ones.
    """
    for given in settings.unused():
        key = given.path
        note = removed_note(key, roots)
        if note is not None:
            names.warn_removed(given.label, note)
            continue
        source, shown = given.source, f"{given.source.dashes}{shorten_text(key, 120)}"
        if key in general:
            raise UsageError(f"{given.label} is a flag of the command itself: give it as --{key} on the command line")
        error, noun = (UsageError, "flag") if source.is_trusted else (UnknownFlag, "key")
        raise error(f"{source.where}unknown {noun} {shown}{_hint(key, roots, general, source.dashes)}")


def removed_note(key: str, roots: Sequence[Entry]) -> str | None:
    """Return what to know of a flag of a removed field, or of one below it; None if it is no such flag."""
    for node in walk_entries(*roots):
        removed = {} if node.cls is None else names.removed_fields(origin_of(node.cls))
        for name, note in removed.items():
            if f"{key}.".startswith(f"{node.flag}.{name}."):
                return note
    return None


def _hint(key: str, roots: Sequence[Entry], general: Sequence[str], dashes: str) -> str:
    """Return what to type instead, to be appended to a message."""
    owners = [(node, name) for flag, node, name in flags_of_other_classes(roots) if f"{key}.".startswith(f"{flag}.")]
    if owners:
        choices = [name for node, name in owners if node is owners[0][0]]
        choose = "choose it with" if len(choices) == 1 else "choose one, as in"
        return f"; it belongs to {names.listed(choices)}: {choose} --{owners[0][0].flag} {choices[0]}"
    for group in walk_entries(*roots):
        if group.is_group and group.choice and not group.entries and key.startswith(f"{group.flag}."):
            item = f"{key[len(group.flag) + 1 :].partition('.')[0]}=" if group.kind == "dict" else ""
            flag, name = f"{dashes}{group.flag}", group.choice.name_of(group.choice.classes[0])
            return f"; {flag} is empty: name a class for each item, as in {flag} {item}{name}"
    counterpart = names.RETURNN_OPTIONS.get(key.rpartition(".")[2]) or names.RETURNN_OPTIONS.get(key.partition(".")[0])
    known = [*(entry.flag for entry in walk_entries(*roots) if entry.is_flag), *general]
    near = [counterpart] if counterpart else _near_flags(key, known)
    shown = " or ".join(dashes + flag for flag in near)
    return f"; did you mean {shown}?" if near else "; --help all lists all flags"


def flags_of_other_classes(roots: Sequence[Entry]) -> Iterator[tuple[str, Entry, str]]:
    """Yield each flag of a class that could be chosen, with the node and the name that chooses it there."""
    for node in walk_entries(*roots):
        if node.kind != "node" or node.choice is None:
            continue
        known = {entry.name for entry in node.entries}
        for cls in node.choice.classes:
            for field in trees.node_fields(cls):
                if field.name not in known and field.metadata.get("mode") != "ignore":
                    yield node.flag + field.metadata.get("separator", ".") + field.name, node, node.choice.name_of(cls)


def _near_flags(key: str, known: Sequence[str]) -> list[str]:
    """Return flags that end alike (`learning_rate.lr` for `optimizer.lr`), similar ones, those with a word of it."""
    last, ends = key.rpartition(".")[2], [flag.rpartition(".")[2] for flag in known]
    close = [last] if last in ends else names.nearest(last, ends)
    alike = [flag for flag in known if flag.rpartition(".")[2] in close]
    similar = names.nearest(key, known)
    found = alike + similar if last in ends else similar or alike
    words = [word for word in last.lower().split("_") if len(word) > 3]
    found += sorted((flag for flag in known if any(word in flag.rpartition(".")[2] for word in words)), key=len)
    return list(dict.fromkeys(found))[:3]


def prepare(params: Any, root: str) -> None:
    """Run `post_init` and `conform`; a `__post_init__` may fail on a value of a wrong type.

    Args:
        params: the root of the tree.
        root: name of the root, which begins its flags.

    Raises:
        UsageError: a value does not fit its field.
        FieldError: a field does not keep its limits; the message names the flag.
    """
    try:
        check(params, root)
    # What a `__post_init__` raises for a value of a wrong type.
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        conform(params, root)
        check(params, root)
    conform(params, root)


def conform(params: Any, root: str) -> None:
    """Check every value of a tree against the type of its field.

    A value that the type can hold without loss is replaced: an int by a float, 3.0 by an int, 0 and
    1 by a bool, a tuple by a list, the value of an enum by its member, a path by its text.
    Functions that are given by name are imported. A required field must not be empty.

    Args:
        root: name of the root, which begins its flags.

    Raises:
        UsageError: a value does not fit; the message names the flag of its field.
    """
    for path, node in trees.nodes_by_path(params):
        cls: Any = type(node)
        place, types_of = trees.place_at(params, root, path), field_types(cls)
        for field in trees.node_fields(node):
            if hasattr(node, field.name):
                _conform_field(node, field, types_of[field.name], place.below(field.name, node).label)


def _conform_field(node: Any, field: dataclasses.Field[Any], declared: Any, label: str) -> None:
    value = getattr(node, field.name)
    # None, if the type allows it, means that there is deliberately no value.
    if field.metadata.get("required") and isinstance(value, str | list | tuple | dict) and not value:
        raise UsageError(f"{label} is required, and empty: give it a value")
    try:
        if trees.children(value) is not None:
            return
        encoded = encode(value, None, label)
    except TypeError as error:
        if any(map(is_node_type, (declared, *get_args(declared)))):  # a class, or an object of Keras
            raise UsageError(f"{label}: expected {shorten_text(type_name(declared))}, got {shorten(value)}") from error
        return  # it can be used, but not stored: `require_readable` finds it
    decoded = _OWN.decode_field(encoded, declared, field, type(node), label)
    if not _is_lossless(value, decoded):
        if is_own_default(field, encoded):
            return
        raise UsageError(
            f"{label} is {shorten(value)}, but would be read from a file as {shorten(decoded)}: change the "
            f"value, or the type of the field ({shorten_text(type_name(declared))})"
        )
    # The object itself stays, if possible: it may be shared. A frozen node keeps its value, which means the same.
    if type(value) is not type(decoded) or repr(value) != repr(decoded):
        with contextlib.suppress(dataclasses.FrozenInstanceError):
            setattr(node, field.name, decoded)


def require_readable(params: Any, cls: Any, root: str) -> None:
    """Encode a tree as a file would hold it, decode it, and compare.

    Args:
        params: the root of the tree, after `conform`.
        cls: declared class of the root, with which it will be read.
        root: name of the root, for messages.

    Raises:
        UsageError: something cannot be stored, or would be read as something else; the message names the field.
    """
    try:
        encoded = encode(params, None, root)
    except (AttributeError, TypeError) as error:
        raise UsageError(str(error)) from error
    # Only a real round trip shows what a `__post_init__` changes when it runs again.
    decoded = _OWN.decode(encoded, cls, root)
    trees.post_init(decoded)
    before, after = flat_params(encoded), flat_params(encode(decoded))
    for path in before | after:
        old, new = before.get(path), after.get(path)
        if not trees.same(old, new):
            flag = trees.flag_of(params, root, path)
            raise UsageError(
                f"{flag} is {shorten(old)}, but would be read from a file as {shorten(new)}: "
                "__post_init__ must give the same values when it runs again"
            )


# Of what the running program has encoded.
_OWN = Decoder(None, imports=True)


def _is_lossless(value: Any, decoded: Any) -> bool:
    """Return True if both mean the same, even if their types differ."""
    if isinstance(value, list | tuple) and isinstance(decoded, list | tuple):
        return len(value) == len(decoded) and all(map(_is_lossless, value, decoded))
    if isinstance(value, Mapping) and isinstance(decoded, Mapping):
        return list(value) == list(decoded) and all(map(_is_lossless, value.values(), decoded.values()))
    # What was given names these, or is a path for a text.
    if isinstance(decoded, NamedObject | Enum | Resource | PurePath) or isinstance(value, PurePath):
        return True
    return trees.same(value, decoded) or bool(value == decoded)  # True may be given as 1


class RootParams(ParamsBase):
    """Root of the params tree of a command: `params["train.num_processes"] = 2`.

    The names are those of the flags, with the same values and errors as on a command line; see
    `tfaip.params.settings`. Subclasses set `flag_root`, the name that begins their flags.
    """

    flag_root: ClassVar[str] = ""

    def __getitem__(self, flag: str) -> Any:
        return get_flag(self, flag)

    def __setitem__(self, flag: str, value: Any) -> None:
        self.set_flags({flag: value})

    def set_flags(self, values: Mapping[str, Any]) -> None:
        """Set several values by their flags; see `tfaip.params.settings.set_flags`."""
        set_flags(self, values)
