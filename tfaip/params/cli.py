"""Parser of the command line of params trees, with config files and errors of one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.arguments import Words, split_arguments
from tfaip.params.config_files import load_config
from tfaip.params.config_output import config_lines
from tfaip.params.decoding import parse_words
from tfaip.params.fieldtypes import origin_of
from tfaip.params.help import help_text
from tfaip.params.limits import FieldError
from tfaip.params.names import nearest
from tfaip.params.resolve import NO_META, Resolver
from tfaip.params.returnn_names import returnn_counterpart, returnn_hint
from tfaip.params.schema import MISSING, Entry, Group, Leaf, Node, walk_entries
from tfaip.params.sources import COMMAND_LINE, Settings, Source, label
from tfaip.params.tree import node_fields, post_init
from tfaip.params.trust import check_packages
from tfaip.util.text import ERROR_LIMIT, shorten_text

_CONFIG = "config"
_HELP = Leaf("help", "help", NO_META, bool, False)
_PRINT = Leaf("print_config", "print_config", NO_META, bool, False)
_TRUST = Leaf("trust", "trust", NO_META, list[str], ())


class ParamsParser:
    """Parser of the flags of one or several params trees.

    Flags are named by the fields (see `pai_meta` for `mode` and `separator`): `--trainer.epochs 5`.
    Values follow their flag: `--x 3`, `--x=3`, lists `--x 1 2 3`, dicts `--d a=1 b=2`; a bare bool
    flag means True, `None` is for optional values. A class is chosen by its name or as
    `module:Class`: `--optimizer Adam`, `--l ClassA ClassB`, `--d first=ClassA`.

    `--config FILE ...` reads flags from YAML or JSON (defaults < files in order < flags),
    `--print_config` prints all values with their origins, `--help` all flags.

    Args:
        prog: the command as the user types it, for `--help`.
        description: of the command, for `--help`.
        trusted: packages whose classes and functions config files may name, besides tfaip, those of
            the params, and those of `--trust PKG ...`.
    """

    def __init__(self, prog: str, description: str = "", trusted: Iterable[str] = ()) -> None:
        self.prog = prog
        self.description = description
        self._trusted = list(trusted)
        self._options: list[Leaf] = []
        self._roots: list[tuple[str, Any, Any, Mapping[str, Any]]] = []
        self._former: dict[str, str] = {}

    def add_option(self, flag: str, *, type: Any = bool, default: Any = None, help: str = "") -> None:  # noqa: A002
        """Add a flag that belongs to no params; it can only be given on the command line.

        Args:
            flag: with dashes.
            type: of the value: a scalar, `list[...]` for several values, `bool` for a bare flag.
            default: if the flag is not given; False for a bool.
            help: for `--help`.
        """
        if type is bool and default is None:
            default = False
        name = flag.lstrip("-")
        self._options.append(Leaf(name, name, {"help": help}, type, default))

    def add_params(self, name: str, cls: Any, *, default: Any = None, metadata: Mapping[str, Any] = NO_META) -> None:
        """Add a params tree.

        Args:
            name: begins its flags, and is the attribute of the result.
            cls: class of the root; a subclass can be chosen by `--name` unless the metadata says
                `fix_dc`.
            default: instance that supplies the defaults; it is not changed. None: the defaults of
                the class.
            metadata: of the root, as `pai_meta` returns it.
        """
        self._roots.append((name, cls, default, metadata))

    def accept_former(self, old: str, new: str) -> None:
        """Accept the old beginning of flags, which `--help` does not show.

        Args:
            old: such as `lav.pipeline`, of `--lav.pipeline.limit`.
            new: the present beginning.
        """
        self._former[new] = old

    def parse(self, argv: Sequence[str]) -> SimpleNamespace:
        """Parse a command line.

        Args:
            argv: without the program.

        Returns:
            An object with an attribute per option and per root.

        Raises:
            UsageError: something is wrong with a flag or with a config file; one line.
            SystemExit: after `--help` and `--print_config`, with code 0.
        """
        words = split_arguments(argv, repeatable=[_CONFIG, _TRUST.name], short={"-h": _HELP.name})
        wants_help = _parse_option(_HELP, words).value
        print_config = _parse_option(_PRINT, words).value
        if words.get(_TRUST.name) == []:
            raise UsageError("--trust needs the name of a package")
        trusted = [*self._trusted, *check_packages(_parse_option(_TRUST, words).value)]
        options = [_parse_option(option, words) for option in self._options]
        sources = [*_config_sources(words), Source(COMMAND_LINE, words)]
        settings = Settings([replace(source, former=self._former) for source in sources])
        resolver = Resolver(settings, trusted)
        roots = [resolver.root(*root) for root in self._roots]
        # Before the checks, so that help is shown for any command line, with the classes that it
        # chooses.
        if wants_help:
            print(help_text(self.prog, self.description, options, roots))
            raise SystemExit(0)
        _refuse_unknown(settings, roots, options)
        # A config file may be printed as a template, with null for values that are still to be
        # given.
        _refuse_missing(roots, may_be_none=print_config)
        built = {root.name: _build(root) for root in roots}
        if print_config:
            print("\n".join(config_lines(roots, built)))
            raise SystemExit(0)
        return SimpleNamespace(**{option.name: option.value for option in options}, **built)


def _parse_option(option: Leaf, words: dict[str, Words]) -> Leaf:
    if option.name not in words:
        return option
    value = parse_words(words.pop(option.name), option.declared, f"--{option.name}")
    return replace(option, value=value)


def _config_sources(words: dict[str, Words]) -> list[Source]:
    files = words.pop(_CONFIG, None)
    if files is not None and not files:
        raise UsageError("--config needs the name of a file")
    return [load_config(file) for file in files or ()]


def _build(root: Node) -> Any:
    built = root.construct()
    # Each __post_init__ has run when its node was built; now the nodes can share values.
    try:
        post_init(built)
    except FieldError as error:
        raise root.usage_error(error) from error
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"--{root.flag}.*: {shorten_text(str(error), ERROR_LIMIT)}") from error
    return built


def _refuse_missing(roots: Sequence[Node], may_be_none: bool) -> None:
    missing = []
    for entry in _all_entries(roots):
        if isinstance(entry, Group) or not entry.required:
            continue
        if isinstance(entry, Node) or entry.value is MISSING or not may_be_none:
            missing.append(f"--{entry.flag}")
    if missing:
        kind = "flag" if len(missing) == 1 else "flags"
        raise UsageError(f"missing required {kind}: {', '.join(missing)}")


def _all_entries(roots: Sequence[Node]) -> list[Entry]:
    return [entry for root in roots for entry in walk_entries(root)]


def _refuse_unknown(settings: Settings, roots: Sequence[Node], options: Sequence[Leaf]) -> None:
    for key, origin in settings.unused():
        kind, dashes = ("flag ", "--") if origin == COMMAND_LINE else ("", "")
        entries = _all_entries(roots)
        hint = _elsewhere(key, entries)
        counterpart = returnn_counterpart(key)
        if counterpart is None and returnn_hint(key) is not None:
            hint = f": {returnn_hint(key)}"
        elif not hint:
            known = [entry.flag for entry in [*entries, *options] if _is_flag(entry)]
            known += [_HELP.name, _CONFIG, _PRINT.name, _TRUST.name]
            near = _near_flags(key, known) if counterpart is None else [counterpart]
            if near:
                hint = "; did you mean " + " or ".join(dashes + flag for flag in near) + "?"
        raise UsageError(f"unknown {kind}{label(key, origin)}{hint or '; --help lists all flags'}")


def _near_flags(key: str, known: Sequence[str]) -> list[str]:
    """Return flags that end alike (`learning_rate.lr` for `optimizer.lr`), then similar ones."""
    by_end: dict[str, list[str]] = {}
    for flag in known:
        by_end.setdefault(flag.rpartition(".")[2], []).append(flag)
    last = key.rpartition(".")[2]
    alike = by_end.get(last, []) + nearest(key, known)
    if not alike:
        for end in nearest(last, by_end):
            alike += by_end[end]
    return list(dict.fromkeys(alike))[:3]


def _is_flag(entry: Entry) -> bool:
    """Return True if the flag can be given; that of a node of a fixed class is only a prefix."""
    return not isinstance(entry, Node) or entry.choice is not None or bool(entry.meta.get("tuple_like"))


def _elsewhere(key: str, entries: Sequence[Entry]) -> str:
    """Return a hint at another class that has the flag, or ""."""
    for node in entries:
        if not isinstance(node, Node) or node.choice is None:
            continue
        if node.cls is not None and _knows(origin_of(node.cls), node.flag, key):
            continue
        for cls in node.choice.classes:
            if _knows(cls, node.flag, key):
                name = node.choice.name_of(cls)
                return f"; it belongs to {name}: choose it with --{node.flag} {name}"
    return ""


def _knows(cls: type, prefix: str, key: str) -> bool:
    """Return True if `key` is the flag of a field of a node, or begins with it."""
    for field in node_fields(cls):
        flag = f"{prefix}{field.metadata.get('separator', '.')}{field.name}"
        if f"{key}.".startswith(f"{flag}."):
            return True
    return False
