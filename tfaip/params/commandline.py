"""Command line of params trees: the words, the parser, config files, and errors of one line."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.codec import Decoder, Word, Words
from tfaip.params.fields import copied
from tfaip.params.help import GENERAL_FLAGS, HelpText, config_lines
from tfaip.params.resolver import MISSING, Entry, Resolver, walk_entries
from tfaip.params.settings import build, refuse_unknown
from tfaip.params.sources import Flags, Settings, Source
from tfaip.util.reading import MAX_DEPTH, MIB, parse_json, read_text
from tfaip.util.text import shorten, shorten_text

_FLAG = re.compile(r"--[A-Za-z_]")
# -inf, -infinity and -nan are values.
_DASH_WORD = re.compile(r"-[A-Za-z](?!nf$|nfinity$|an$)")


def is_flag_word(word: str) -> bool:
    """Return True for a word that begins a flag."""
    return _FLAG.match(word) is not None


def is_value_word(word: str) -> bool:
    """Return True for a word that can be a value."""
    return not is_flag_word(word) and _DASH_WORD.match(word) is None


def split_arguments(argv: Sequence[str], repeatable: Sequence[str] = ()) -> dict[str, Words]:
    """Return flags without their dashes, each with the words after it.

    Args:
        argv: as typed, without the program.
        repeatable: flags that may be given several times; their words are joined.

    Raises:
        UsageError: a word before the first flag, a flag given twice, or a word with one dash.
    """
    found: dict[str, Words] = {}
    current: Words | None = None
    takes_dashes = False  # after --flag=-a further words of the list may begin with a dash, too
    for word in argv:
        word = "--help" if word == "-h" else word
        shown = shorten_text(word)
        if _DASH_WORD.match(word) and not takes_dashes:
            raise UsageError(f"unknown flag {shown}: flags begin with --; a value is written --flag={shown}")
        if _FLAG.match(word):
            flag, has_value, value = word[2:].partition("=")
            takes_dashes = _DASH_WORD.match(value) is not None
            if flag in found and flag not in repeatable:
                raise UsageError(f"--{shorten_text(flag)} is given twice: give it once")
            current = found.setdefault(flag, Words())
            if has_value:
                current.append(value)
        elif current is None:
            raise UsageError(f"unexpected argument {shorten(word)}: a value follows its flag, as in --flag value")
        else:
            current.append(word)
    return found


class ParamsParser:
    """Parser of the flags of one or several params trees.

    Flags are named by the fields (see `pai_meta` for `mode` and `separator`): `--trainer.epochs 5`.
    Values follow their flag: `--x 3`, `--x=3`, lists `--x 1 2 3`, dicts `--d a=1 b=2`; a bare bool
    flag means True, `None` is for optional values. A class is chosen by its name or as
    `module:Class`: `--optimizer Adam`, `--l ClassA ClassB`, `--d first=ClassA`.

    `--config FILE ...` reads flags from YAML or JSON (defaults < files in order < flags), `--print_config` prints all
    values with their origins, `--help` an overview of the flags, `--help all` all of them (see `HelpText`).

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
        self._options: list[Entry] = []
        self._roots: list[tuple[str, Any, Any, Mapping[str, Any]]] = []
        self._former: dict[str, str] = {}

    def add_option(self, flag: str, *, type: Any = bool, default: Any = None, help: str = "") -> None:  # noqa: A002
        """Add a flag that belongs to no params; it can only be given on the command line.

        Args:
            flag: with dashes.
            type: of the value: a scalar, `list[...]` for several values, `bool` for a bare flag.
            default: if the flag is not given; False for a bool.
        """
        if type is bool and default is None:
            default = False
        name = flag.lstrip("-")
        self._options.append(Entry(name, name, {"help": help}, type, default))

    def add_params(self, name: str, cls: Any, *, default: Any = None, metadata: Mapping[str, Any] = {}) -> None:
        """Add a params tree.

        Args:
            name: begins its flags, and is the attribute of the result.
            cls: class of the root; a subclass can be chosen by `--name` unless the metadata says `fix_dc`.
            default: instance that supplies the defaults; it is not changed. None: the defaults of the class.
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

    def offer(self, flags: Sequence[Entry]) -> None:
        """Do something with all flags, as they are after the other arguments, before any check; here nothing."""

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
        words = split_arguments(argv, repeatable=["config", "trust"])
        topics = _taken(words, "help", list[str], None)
        with_paths = _taken(words, "python", bool, False)
        if with_paths and topics is None:
            raise UsageError("--python shows Python paths in the help: add --help")
        print_config = _taken(words, "print_config", bool, False)
        trusted = [*self._trusted, *_taken(words, "trust", list[str], [])]
        options = [replace(own, value=_taken(words, own.name, own.declared, own.value)) for own in self._options]
        files = words.pop("config", None)
        if files is not None and not files:
            raise UsageError("--config needs the name of a file")
        # The lowest first; below all are the defaults, or the params of a run.
        settings = Settings([*map(load_config, files or ()), *configs, Flags(words)])
        for new, old in self._former.items():
            settings.rename(old, new)
        resolver = Resolver(settings, trusted)
        roots = [resolver.root(name, cls, copied(default), meta) for name, cls, default, meta in self._roots]
        # Before the checks, so that help is shown for any command line, with the classes that it chooses.
        self.offer([*options, *(entry for entry in walk_entries(*roots) if entry.is_flag)])
        if topics is not None:
            print(HelpText(self.prog, self.description, options, roots, self._home, with_paths).text(topics))
            raise SystemExit(0)
        refuse_unknown(settings, roots, [*GENERAL_FLAGS, *(option.name for option in options)])
        # A config file may be printed as a template, with null for values that are still to be given.
        require_values(roots, may_be_none=print_config)
        built = {root.name: build(root) for root in roots}
        if print_config:
            print("\n".join(config_lines(roots, built)))
            raise SystemExit(0)
        return SimpleNamespace(**{option.name: option.value for option in options}, **built)


def _taken(words: dict[str, Words], name: str, declared: Any, default: Any) -> Any:
    """Return the value of a flag that belongs to no params, and take its words."""
    return Decoder(None).decode(words.pop(name), declared, f"--{name}") if name in words else default


def require_values(roots: Sequence[Entry], may_be_none: bool) -> None:
    """Raise unless everything that is required is given.

    Args:
        may_be_none: accept None, and an empty text or list, for a value.

    Raises:
        UsageError: if a value is missing; names all flags.
    """
    missing = []
    for entry in walk_entries(*roots):
        if entry.required and (entry.value is MISSING or not may_be_none):
            missing.append(f"--{entry.flag}")
    if missing:
        kind = "flag" if len(missing) == 1 else "flags"
        raise UsageError(f"missing required {kind}: {', '.join(missing)}")


# --- Config files

# The parser of YAML is written in Python, much slower than that of JSON, which may be larger: each value takes 3 kB.
YAML_BYTES = 4 * MIB
YAML_VALUES = 50_000
_TAG = "tag:yaml.org,2002:"
# Tags of values that are read as text: the library would read 010 as 8, and 1:30 as 90.
_OF_TEXT = {"str", "int", "float", "bool", "timestamp", "value", "merge"}


def load_config(name: str) -> Source:
    """Read a config file: `.yaml`, `.yml` or `.json`, with flags as keys, dotted or nested.

    Raises:
        UsageError: the file is missing, broken or too large, or a key is given twice.
    """
    path = Path(name)
    if path.suffix == ".json":
        return Source(parse_json(read_text(path), name), name)
    if path.suffix in {".yaml", ".yml"}:
        return Source(_parse_yaml(read_text(path, YAML_BYTES), shorten_text(name)), name)
    raise UsageError(f"{shorten_text(name)}: expected a file that ends with .yaml, .yml or .json")


def _parse_yaml(text: str, name: str) -> dict[str, Any]:
    # Not before: it takes 20 ms to import, and most commands are given no file.
    import yaml

    try:
        nodes = 0
        for event in yaml.parse(text, yaml.SafeLoader):
            nodes += isinstance(event, yaml.NodeEvent)
            if nodes > YAML_VALUES:
                raise _broken_yaml(name, f"more than {YAML_VALUES} values; a JSON file may hold more")
        root = yaml.compose(text, yaml.SafeLoader)
        document = {} if root is None else _Values(name).value_of(root, 0)
    except yaml.MarkedYAMLError as error:
        raise _broken_yaml(name, str(error.problem), error.problem_mark) from error
    except RecursionError as error:
        raise UsageError(f"{name}: YAML is nested too deeply") from error
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        raise _broken_yaml(name, str(error)) from error  # of the library, for what is no YAML
    if not isinstance(document, dict):
        raise UsageError(f"{name}: expected flags and values, got {type(document).__name__}")
    return document


def _broken_yaml(name: str, problem: str, mark: Any = None) -> UsageError:
    where = f" in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    return UsageError(f"{name}: broken YAML{where}: {shorten_text(problem, 120)}")


class _Values:
    """Plain values of the nodes of a document, as many as are allowed; an alias counts as a copy.

    A value without quotes is a `Word`, which means what it means on a command line.
    """

    def __init__(self, name: str) -> None:
        self._name, self._values = name, 0

    def value_of(self, node: Any, depth: int) -> Any:
        """Return the plain value of a node at some depth."""
        self._values += 1
        if self._values > YAML_VALUES:
            raise self._broken(f"more than {YAML_VALUES} values if all aliases are written out")
        if depth > MAX_DEPTH:  # also if a node contains itself
            raise RecursionError
        tag = node.tag.removeprefix(_TAG)
        if node.id == "scalar" and tag == "null":
            return None
        if node.id == "scalar" and tag in _OF_TEXT:
            return Word(self._joined(node)) if node.style is None else self._joined(node)
        if node.id == "sequence" and tag == "seq":
            return [self.value_of(item, depth + 1) for item in node.value]
        if node.id != "mapping" or tag != "map":
            raise self._broken(f"could not determine a value for the tag {shorten(tag)}", node)
        found: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        for key, item in node.value:
            if key.id != "scalar":
                raise self._broken("key is not a plain name", key)
            name = self._joined(key)
            if name in found:  # YAML itself would take the last one
                raise self._broken(f"key {shorten(name)} is given twice", key)
            if key.tag == f"{_TAG}merge":
                sources = item.value if item.id == "sequence" else [item]
                for source in reversed(sources):  # the first one wins
                    merged |= self.value_of(source, depth + 1)
            else:
                found[name] = self.value_of(item, depth + 1)
        return merged | found

    def _joined(self, node: Any) -> str:
        """Return the text of a scalar; JSON escapes one character beyond the first 65536 as two."""
        text = str(node.value)
        if not any("\ud800" <= character <= "\udfff" for character in text):
            return text
        return text.encode("utf-16", "surrogatepass").decode("utf-16")

    def _broken(self, problem: str, node: Any = None) -> UsageError:
        return _broken_yaml(self._name, problem, node and node.start_mark)
