"""`ParamsParser`: the command line of a params tree, with config files and errors of one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, get_origin

from tfaip.errors import UsageError
from tfaip.params.arguments import Words, split_arguments
from tfaip.params.config_files import load_config
from tfaip.params.config_output import config_lines
from tfaip.params.foreign import foreign_flag, foreign_hint
from tfaip.params.help import help_text
from tfaip.params.names import nearest
from tfaip.params.resolve import NO_META, Resolver
from tfaip.params.schema import MISSING, Entry, Leaf, Node, walk_entries
from tfaip.params.sources import COMMAND_LINE, Settings, Source, label
from tfaip.params.tree import node_fields, post_init
from tfaip.params.trust import check_packages
from tfaip.params.values import parse_words
from tfaip.util.text import ERROR_LIMIT, shorten_text


@dataclass(frozen=True)
class _Option:
    name: str
    declared: Any
    default: Any
    meta: Mapping[str, Any]


@dataclass(frozen=True)
class _Root:
    name: str
    declared: Any
    default: Any
    meta: Mapping[str, Any]


_CONFIG = "config"
_HELP = _Option("help", bool, False, NO_META)
_PRINT = _Option("print_config", bool, False, NO_META)
_TRUST = _Option("trust", list[str], (), NO_META)


class ParamsParser:
    """Parses the flags of one or several params trees.

    Flags are named by the fields (see `pai_meta` for `mode` and `separator`): `--trainer.epochs 5`. Values stand
    behind their flag: `--x 3`, `--x=3`, lists `--x 1 2 3`, dicts `--d a=1 b=2`, a bare bool flag means True, `None`
    is for optional ones. A class is chosen by its name or as `module:Class`: `--optimizer Adam`, `--l ClassA ClassB`,
    `--d first=ClassA`.

    `--config FILE ...` reads flags from YAML or JSON (defaults < files in order < flags), `--print_config` prints all
    values with their origins, `--help` all flags.

    Args:
        prog: the command as the user types it, for `--help`.
        description: what it does, for `--help`.
        trusted: packages that config files may name classes and functions of, besides tfaip, those of the params, and
            what `--trust PKG ...` adds.
    """

    def __init__(self, prog: str, description: str = "", trusted: Iterable[str] = ()) -> None:
        self.prog = prog
        self.description = description
        self._trusted = list(trusted)
        self._options: list[_Option] = []
        self._roots: list[_Root] = []
        self._former: dict[str, str] = {}

    def add_option(self, flag: str, *, type: Any = bool, default: Any = None, help: str = "") -> None:  # noqa: A002
        """Add a flag that belongs to no params; it can only be given on the command line.

        Args:
            flag: with dashes.
            type: of the value: a scalar, `list[...]` for several values, `bool` for a bare flag.
            default: if the flag is not given; False for a bool.
            help: for `--help`.
        """
        default = False if type is bool and default is None else default
        self._options.append(_Option(flag.lstrip("-"), type, default, {"help": help}))

    def add_params(self, name: str, cls: Any, *, default: Any = None, metadata: Mapping[str, Any] = NO_META) -> None:
        """Add a params tree.

        Args:
            name: begins its flags, and is the attribute of the result.
            cls: class of the root; a subclass can be chosen by `--name` unless the metadata says `fix_dc`.
            default: instance that supplies the defaults; it is not changed. None: the defaults of the class.
            metadata: of the root, as `pai_meta` returns it.
        """
        self._roots.append(_Root(name, cls, default, metadata))

    def accept_former(self, old: str, new: str) -> None:
        """Accept the old beginning of flags, which no help shows any more.

        Args:
            old: as in `lav.pipeline`, of `--lav.pipeline.limit`.
            new: what it is called now.
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
        roots = [resolver.root(root.name, root.declared, root.default, root.meta) for root in self._roots]
        if wants_help:
            print(help_text(self.prog, self.description, options, roots))
            raise SystemExit(0)
        _refuse_unknown(settings, roots, options)
        _refuse_missing(roots, may_be_none=print_config)
        built = {root.name: _build(root) for root in roots}
        if print_config:
            print("\n".join(config_lines(roots, built)))
            raise SystemExit(0)
        return SimpleNamespace(**{option.name: option.value for option in options}, **built)


def _parse_option(option: _Option, words: dict[str, Words]) -> Leaf:
    leaf = Leaf(option.name, option.name, option.declared, option.meta, option.default)
    if option.name in words:
        leaf.value = parse_words(words.pop(option.name), option.declared, f"--{option.name}")
    return leaf


def _config_sources(words: dict[str, Words]) -> list[Source]:
    files = words.pop(_CONFIG, None)
    if files is not None and not files:
        raise UsageError("--config needs the name of a file")
    return [load_config(file) for file in files or ()]


def _build(root: Node) -> Any:
    built = root.construct()
    try:
        post_init(built)
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"--{root.flag}.*: {shorten_text(str(error), ERROR_LIMIT)}") from error
    return built


def _refuse_missing(roots: Sequence[Node], may_be_none: bool) -> None:
    entries = [entry for root in roots for entry in walk_entries(root)]
    required = [entry for entry in entries if isinstance(entry, Leaf | Node) and entry.required]
    if may_be_none:
        required = [entry for entry in required if isinstance(entry, Node) or entry.value is MISSING]
    missing = [f"--{entry.flag}" for entry in required]
    if missing:
        raise UsageError(f"missing required {'flag' if len(missing) == 1 else 'flags'}: {', '.join(missing)}")


def _refuse_unknown(settings: Settings, roots: Sequence[Node], options: Sequence[Leaf]) -> None:
    for key, origin in settings.unused():
        kind, shown = "flag " if origin == COMMAND_LINE else "", label(key, origin)
        entries = [entry for root in roots for entry in walk_entries(root)]
        known = [e.flag for e in [*entries, *options] if _is_flag(e)] + [_HELP.name, _CONFIG, _PRINT.name, _TRUST.name]
        hint = _elsewhere(key, entries)
        foreign = foreign_flag(key)
        missing = foreign_hint(key)
        if foreign is None and missing is not None:
            raise UsageError(f"unknown {kind}{shown}: {missing}")
        near = _near_flags(key, known) if foreign is None else [foreign]
        if not hint and near:
            dashes = "--" if origin == COMMAND_LINE else ""
            hint = "; did you mean " + " or ".join(dashes + flag for flag in near) + "?"
        raise UsageError(f"unknown {kind}{shown}{hint or '; --help lists all flags'}")


def _near_flags(key: str, known: Sequence[str]) -> list[str]:
    """Flags of any branch that end alike (`learning_rate.lr` for `optimizer.lr`), then those that look alike."""
    ends = {flag: flag.rpartition(".")[2] for flag in known}
    last = key.rpartition(".")[2]
    alike = [flag for flag in known if ends[flag] == last] + nearest(key, known)
    if not alike:
        alike = [flag for end in nearest(last, ends.values()) for flag in known if ends[flag] == end]
    return list(dict.fromkeys(alike))[:3]


def _is_flag(entry: Entry) -> bool:
    """Whether the flag of an entry can be given: for a node of a fixed class it is only the prefix of its fields."""
    return not isinstance(entry, Node) or entry.choice is not None or bool(entry.meta.get("tuple_like"))


def _elsewhere(key: str, entries: Sequence[Entry]) -> str:
    """Which other class would know the flag."""
    for node in entries:
        if not isinstance(node, Node) or node.choice is None:
            continue
        if node.cls is not None and _knows(get_origin(node.cls) or node.cls, node.flag, key):
            continue
        for cls in node.choice.classes:
            if _knows(cls, node.flag, key):
                name = node.choice.name_of(cls)
                return f"; it belongs to {name}: choose it with --{node.flag} {name}"
    return ""


def _knows(cls: type, prefix: str, key: str) -> bool:
    """Whether a class of a node with this flag has a field whose flag `key` is, or begins with."""
    flags = (f"{prefix}{field.metadata.get('separator', '.')}{field.name}" for field in node_fields(cls))
    return any(f"{key}.".startswith(f"{flag}.") for flag in flags)
