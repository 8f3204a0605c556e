"""Params trees in programs that build their command line with `paiargparse.PAIArgumentParser`.

The library parses only what its own decorators and `typing.List` describe. Its roots are taken out of its hands: their
flags are resolved as by the commands, all other arguments are left to it. The library asks a method for the class of
the parser of its roots; `tfaip.util.oldnames` answers with the one here, as soon as a program has imported the library.
"""

import contextlib
import re
import sys
from argparse import SUPPRESS, ArgumentError, Namespace
from collections.abc import Sequence
from dataclasses import MISSING, dataclass
from typing import Any

from paiargparse import PAIArgumentParser
from paiargparse.dataclass_parser import PAIDataClassArgumentParser

from tfaip.errors import UsageError
from tfaip.params.codec import Words
from tfaip.params.commandline import is_flag_word, is_value_word, require_values
from tfaip.params.fields import copied
from tfaip.params.help import described_flag
from tfaip.params.resolver import Entry, Resolver, walk_entries
from tfaip.params.settings import build, refuse_unknown
from tfaip.params.sources import Flags, Settings
from tfaip.util.text import shorten

_HELP = ("-h", "--help")


@dataclass(frozen=True)
class _Root:
    """Root of a tree, as `add_root_argument` takes it."""

    cls: Any
    default: Any
    ignore: tuple[str, ...]
    flat: bool


class TreeParser(PAIDataClassArgumentParser):
    """Parser of the roots of a `PAIArgumentParser`, which are params and other dataclasses."""

    def __init__(self, *args: Any, ignore_required: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, ignore_required=ignore_required, **kwargs)
        self._may_be_none = ignore_required
        self._tree_roots: dict[str, _Root] = {}
        self.resolved: list[Entry] = []

    def add_root_argument(
        self, param_name: str, dc_type: Any, default: Any = MISSING, ignore: Any = None, flat: bool = False
    ) -> None:
        """Add a root; the arguments are those of the library."""
        given = None if default is MISSING else default
        self._tree_roots[param_name] = _Root(dc_type, given, tuple(ignore or ()), flat)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Namespace, list[str]]:
        """Parse the flags of all roots; return the namespace and the other words."""
        words = sys.argv[1:] if args is None else list(args)
        namespace = Namespace() if namespace is None else namespace
        parsed: tuple[Namespace, list[str]] = super().parse_known_args(self._parse_trees(words, namespace), namespace)
        return parsed

    def _parse_trees(self, args: Sequence[str], namespace: Namespace) -> list[str]:
        given, parts = _split(args)
        unused = set(given)
        self.resolved = []
        for name, root in self._tree_roots.items():
            known = {flag: words for flag, words in given.items() if not flag.startswith(root.ignore)}
            settings = Settings([Flags(known)])
            # Each with a resolver of its own: a flag that two trees have (`--device.gpus`) sets both.
            flag, meta = ("", {"fix_dc": True}) if root.flat else (name, {})
            node = Resolver(settings).root(flag, root.cls, copied(root.default), meta)
            self.resolved.append(node)
            self._register_flags(node, root.ignore)
            unused -= known.keys() - {setting.path for setting in settings.unused()}
        if not any(word in _HELP for word in args):
            require_values(self.resolved, may_be_none=self._may_be_none)
            for name, node in zip(self._tree_roots, self.resolved, strict=True):
                setattr(namespace, name, build(node))
        return [word for flag, part in parts if flag is None or flag in unused for word in part]

    def _register_flags(self, root: Entry, ignored: tuple[str, ...]) -> None:
        """Register the flags as arguments, which is where the library finds its help and similar names."""
        for entry in walk_entries(root):
            if entry.is_flag and not entry.flag.startswith(ignored):
                kind, text = described_flag(entry)
                with contextlib.suppress(ArgumentError):  # it is there already
                    self.add_argument(f"--{entry.flag}", metavar=kind, default=SUPPRESS, help=text.replace("%", "%%"))


class TFAIPArgumentParser(PAIArgumentParser):
    """`PAIArgumentParser` with the messages and exit codes of the commands."""

    _trees: TreeParser

    def _data_class_argument_parser_cls(self) -> type[TreeParser]:
        parser = self

        class Trees(TreeParser):
            def __init__(self, **kwargs: Any) -> None:
                super().__init__(**kwargs)
                parser._trees = self

        return Trees

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse a command line; a wrong one ends the program with one line and exit code 2."""
        try:
            namespace, rest = self.parse_known_args(args, namespace)
            if rest:
                given, _ = _split(rest)
                general = re.findall(r"(?<!\S)\[?--?([\w.-]+)", self.format_usage())
                refuse_unknown(Settings([Flags(given)]), self._trees.resolved, general)
                raise UsageError(
                    f"unexpected argument {shorten(rest[0])}: a value follows its flag, as in --flag value"
                )
        except UsageError as error:
            self.exit(2, f"error: {error}\n")
        return namespace


def _split(args: Sequence[str]) -> tuple[dict[str, Words], list[tuple[str | None, list[str]]]]:
    """Return the words after each flag; and all arguments in order, in parts of a flag, or None, and its words."""
    given: dict[str, Words] = {}
    parts: list[tuple[str | None, list[str]]] = []
    for word in args:
        if is_flag_word(word):
            flag, equals, value = word[2:].partition("=")
            if flag in given:
                raise UsageError(f"--{flag} is given twice: give it once")
            given[flag] = Words([value] if equals else [])
            parts.append((flag, [word]))
        elif parts and parts[-1][0] is not None and is_value_word(word):
            given[str(parts[-1][0])].append(word)
            parts[-1][1].append(word)
        else:
            parts.append((None, [word]))
    return given, parts
