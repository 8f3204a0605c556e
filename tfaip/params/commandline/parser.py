"""Parser of the command line of params trees, with config files and errors of one line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import Words, parse_words
from tfaip.params.commandline.arguments import split_arguments
from tfaip.params.commandline.config_files import load_config
from tfaip.params.commandline.config_output import config_lines
from tfaip.params.commandline.help import COMPLETION, HelpText, answer_shell, values_of
from tfaip.params.resolver import MISSING, NO_META, Group, Leaf, Node, Resolver
from tfaip.params.settings import build
from tfaip.params.sources import COMMAND_LINE, Settings, Source
from tfaip.params.tree import copy_tree
from tfaip.params.trust import check_packages
from tfaip.params.unknown import all_entries, is_flag, refuse_unknown

_CONFIG = "config"
_HELP = Leaf("help", "help", NO_META, list[str], None)
_PYTHON = Leaf("python", "python", NO_META, bool, False)
_PRINT = Leaf("print_config", "print_config", NO_META, bool, False)
_TRUST = Leaf("trust", "trust", NO_META, list[str], ())


class ParamsParser:
    """Parser of the flags of one or several params trees.

    Flags are named by the fields (see `pai_meta` for `mode` and `separator`): `--trainer.epochs 5`.
    Values follow their flag: `--x 3`, `--x=3`, lists `--x 1 2 3`, dicts `--d a=1 b=2`; a bare bool
    flag means True, `None` is for optional values. A class is chosen by its name or as
    `module:Class`: `--optimizer Adam`, `--l ClassA ClassB`, `--d first=ClassA`.

    `--config FILE ...` reads flags from YAML or JSON (defaults < files in order < flags),
    `--print_config` prints all values with their origins, `--help` an overview of the flags,
    `--help all` all of them (see `HelpText`).

    Args:
        prog: the command as the user types it, for `--help`.
        description: of the command, for `--help`.
        trusted: packages whose classes and functions config files may name, besides those of the params and
            of `--trust PKG ...`, and the classes of tfaip.
        home: module of the scenario, whose options `--help` shows first.
    """

    def __init__(self, prog: str, description: str = "", trusted: Iterable[str] = (), home: str = "") -> None:
        self.prog = prog
        self.description = description
        self._home = home
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

    def parse(self, argv: Sequence[str], configs: Sequence[Source] = ()) -> SimpleNamespace:
        """Parse a command line.

        Args:
            argv: without the program.
            configs: further contents of config files, above those of `--config`.

        Returns:
            An object with an attribute per option and per root.

        Raises:
            UsageError: something is wrong with a flag or with a config file; one line.
            SystemExit: after `--help` and `--print_config`, with code 0.
        """
        words = split_arguments(argv, repeatable=[_CONFIG, _TRUST.name], short={"-h": _HELP.name})
        topics = _parse_option(_HELP, words).value
        with_paths = _parse_option(_PYTHON, words).value
        if with_paths and topics is None:
            raise UsageError("--python shows Python paths in the help: add --help")
        print_config = _parse_option(_PRINT, words).value
        if words.get(_TRUST.name) == []:
            raise UsageError("--trust needs the name of a package")
        trusted = [*self._trusted, *check_packages(_parse_option(_TRUST, words).value)]
        options = [_parse_option(option, words) for option in self._options]
        sources = [*_config_sources(words), *configs, Source(COMMAND_LINE, words)]
        settings = Settings([replace(source, former=self._former) for source in sources])
        resolver = Resolver(settings, trusted)
        roots = [resolver.root(name, cls, copy_tree(default), meta) for name, cls, default, meta in self._roots]
        # Before the checks, so that help is shown for any command line, with the classes that it
        # chooses.
        if COMPLETION in os.environ:
            entries = [*options, *filter(is_flag, all_entries(roots))]
            answer_shell((f"--{entry.flag}", entry.help, values_of(entry)) for entry in entries)
        if topics is not None:
            print(HelpText(self.prog, self.description, options, roots, self._home, with_paths).text(topics))
            raise SystemExit(0)
        general = [_HELP.name, _PYTHON.name, _CONFIG, _PRINT.name, _TRUST.name, *(option.name for option in options)]
        refuse_unknown(settings, roots, general)
        # A config file may be printed as a template, with null for values that are still to be
        # given.
        require_values(roots, may_be_none=print_config)
        built = {root.name: build(root) for root in roots}
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


def require_values(roots: Sequence[Node], may_be_none: bool) -> None:
    """Raise unless everything that is required is given.

    Args:
        roots: resolved trees.
        may_be_none: accept None, and an empty text or list, for a value.

    Raises:
        UsageError: if a value is missing; names all flags.
    """
    missing = []
    for entry in all_entries(roots):
        if isinstance(entry, Group) or not entry.required:
            continue
        if isinstance(entry, Node) or entry.value is MISSING or not may_be_none:
            missing.append(f"--{entry.flag}")
    if missing:
        kind = "flag" if len(missing) == 1 else "flags"
        raise UsageError(f"missing required {kind}: {', '.join(missing)}")
