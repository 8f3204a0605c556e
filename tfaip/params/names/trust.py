"""Classes and functions that are named as `module:name`, and which of them a file may name.

What a user types is imported as it is. Of what a file names, only what is allowed is ever imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import re
import shlex
import sys
from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import FunctionType
from typing import Any, get_origin

from tfaip.errors import UsageError
from tfaip.params.names import oldnames, suggestions
from tfaip.util.text import shorten, shorten_text

FULL_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)
# At the end of a text; the second also with parts that are filled in later.
_MODULES = (re.compile(r"[\w.]+", re.ASCII), re.compile(r"[\w.{}]+", re.ASCII))
_PLACEHOLDER = re.compile(r"\{[^{}]*\}")
# A text may hold values for several fields, which are split once more.
_SPLITS = 3
_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_OWN_PACKAGE = "tfaip"
# Attribute of a params class that was made from the parts of a scenario: the name of the scenario.
SCENARIO_MARK = "__scenario__"
# Far more than any name has: it is shown in messages, and becomes a path when it is imported.
LONGEST_NAME = 200


def class_name(cls: type) -> str:
    """Return the `module:Class` under which stored params name a class.

    Raises:
        TypeError: it is not defined at the top level of a module, so no name could find it again.
    """
    scenario = vars(cls).get(SCENARIO_MARK)
    if cls.__qualname__ != cls.__name__:
        shown = scenario or cls.__qualname__
        raise TypeError(f"{shown} cannot be stored: move it to the top level of {cls.__module__}")
    if scenario and cls.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise TypeError(
            f"{scenario} cannot be stored: no other program can import a class of a notebook, move it to a module"
        )
    return f"{cls.__module__}:{cls.__name__}"


def top_package(module: str) -> str:
    """Return `pkg` of `pkg.sub.module`."""
    return module.partition(".")[0]


def trusted_packages(declared: Any, trusted: frozenset[str]) -> frozenset[str]:
    """Return `trusted` and the package of a declared class, whose code runs already.

    Not `tfaip` itself, of which a file may name every class of params, but no function.
    """
    if declared is object:
        return trusted
    return trusted | ({top_package((get_origin(declared) or declared).__module__)} - {_OWN_PACKAGE})


def check_packages(packages: Iterable[str]) -> list[str]:
    """Return the packages of `--trust`.

    Raises:
        UsageError: if one is not the name of a top-level package.
    """
    packages = list(packages)
    for name in packages:
        if not name.isidentifier():
            top = top_package(name)
            hint = f": --trust {top}" if top.isidentifier() else ""
            raise UsageError(f"--trust {shorten_text(name)}: expected the name of a top-level package{hint}")
    return packages


class UntrustedName(UsageError):
    """A file names something that it must not.

    Args:
        refusal: what, and why.
        package: that would have to be trusted.
    """

    def __init__(self, refusal: str, package: str) -> None:
        self.refusal, self.package = refusal, package
        super().__init__(f"{refusal}; if you know the file, {self.how_to_trust()}")

    def how_to_trust(self) -> str:
        """Return the flag that trusts the package."""
        return f"trust it: --trust {self.package}"


class IncompleteName(UntrustedName):
    """A file names something whose module has a placeholder.

    Args:
        refusal: what, and why.
    """

    def __init__(self, refusal: str) -> None:
        super().__init__(refusal, "")

    def how_to_trust(self) -> str:
        """Return what to change in the file."""
        return "write the name in full"


class NotImportable(UsageError):
    """A class or function that cannot be imported.

    Args:
        place: flag or dotted path.
        problem: the reason.
        expected: the same in words of what is expected.
    """

    def __init__(self, place: str, problem: str, expected: str) -> None:
        self.expected = expected
        super().__init__(f"{place}: {problem}")


def import_named(name: str, place: str, kind: str) -> Any:
    """Import a class or function.

    Args:
        name: `module:name`. A name from a file must have been checked before.
        place: flag or dotted path, for messages.
        kind: "class" (of params), "function", or "object" for a class or function.

    Raises:
        NotImportable: if the module cannot be imported, or has no such class or function.
    """
    module_name, _, attribute = name.partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module may raise anything while it is imported
        reason = f"{type(error).__name__}: {shorten_text(str(error))}"
        hint = ""
        if isinstance(error, ModuleNotFoundError):
            hint = ": put the directory that holds it on the PYTHONPATH"
        problem = f"module {shorten(module_name)} cannot be imported ({reason}){hint}"
        raise NotImportable(place, problem, f"a module that can be imported ({reason})") from error
    found = getattr(module, attribute, None)
    if found is None or (kind != "class" and not callable(found)):
        if kind == "class":
            known = [key for key, value in vars(module).items() if dataclasses.is_dataclass(value)]
        else:
            kinds = FunctionType if kind == "function" else type | FunctionType
            known = [key for key, value in vars(module).items() if isinstance(value, kinds)]
        hint = suggestions.did_you_mean(attribute, known)
        shown = shorten_text(module_name)
        problem = f"module {shown} has no {kind} {shorten(attribute)}{hint}"
        raise NotImportable(place, problem, f"a {kind} that module {shown} has")
    return found


def find_class(name: Any, declared: Any, trusted: frozenset[str], place: str) -> type:
    """Return the params class that a file names.

    Args:
        name: value of `__cls__`, expected to be `module:Class`.
        declared: type of the field; the class must be a subclass.
        trusted: top-level packages, besides `tfaip` and the one of `declared`, that may be
            imported.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    current = oldnames.RENAMED_CLASSES.get(name, name) if isinstance(name, str) else name
    if not _is_full_name(current):
        raise UsageError(f"{place}: __cls__ is {shorten(name)}, expected 'module:Class'")
    allowed = trusted_packages(declared, trusted) | {_OWN_PACKAGE}
    what = f"{place}: __cls__ {shorten(name)}"
    _require_trust(current.partition(":")[0], allowed, what)
    cls = import_named(current, place, "class")
    base = get_origin(declared) or declared
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and issubclass(cls, base)):
        raise UsageError(f"{place}: {shorten(name)} is not a params class derived from {base.__name__}")
    # An allowed module may import a class from one that is not, and hold it by another name.
    _require_trust(cls.__module__, allowed, f"{what}, defined in {cls.__module__},")
    return cls


def check_function(name: str, trusted: frozenset[str], place: str) -> None:
    """Raise unless a file may name a function.

    Those of `tfaip` read and write files and import modules; a file could choose their arguments, too.

    Args:
        name: `module:function`.
        trusted: top-level packages that may be imported.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    if not _is_full_name(name):
        raise UsageError(f"{place}: expected module:function, got {shorten(name)}")
    what = f"{place}: function {shorten(name)}"
    _require_trust(name.partition(":")[0], trusted, what)
    home = getattr(import_named(name, place, "function"), "__module__", None) or ""
    # As for classes: a function of another module that an allowed one has imported.
    _require_trust(home, trusted, f"{what}, defined in {home},")


def require_trusted_package(name: str, trusted: frozenset[str], place: str) -> None:
    """Raise unless a file may name a function or class in place of an object of Keras; nothing is imported.

    Functions of `tfaip` and of Keras do many things; none is meant.

    Args:
        name: `module:name`.
        trusted: top-level packages that may be imported.
        place: dotted path, for messages.

    Raises:
        UntrustedName: if the package is not trusted.
    """
    _require_trust(name.partition(":")[0], trusted - {_OWN_PACKAGE}, f"{place}: {shorten(name)}")


def check_text(text: str, trusted: frozenset[str], place: str) -> None:
    """Raise unless a file may give a text as the value of a field, which may name classes and functions.

    Args:
        text: what would follow the flag of the field; every `module:name` in it counts.
        trusted: top-level packages, besides `tfaip`, that may be imported.
        place: dotted path, for messages.

    Raises:
        UntrustedName: if a package is not trusted; always before anything of it is imported.
        IncompleteName: if a module is known only when a placeholder is filled in.
    """
    allowed = trusted | {_OWN_PACKAGE}
    for name in _names_in(text):
        what = f"{place}: {shorten(name)}"
        if _PLACEHOLDER.search(name) is not None:
            raise IncompleteName(f"{what} is refused: its module is known only when the placeholder is filled in")
        _require_trust(name.partition(":")[0], allowed, what)
        try:
            home = getattr(import_named(name, place, "object"), "__module__", None) or ""
        except NotImportable:
            continue  # maybe no name at all
        # As for functions: one of another module that an allowed one has imported.
        _require_trust(home, allowed, f"{what}, defined in {home},")


def _names_in(text: str) -> Iterator[str]:
    """Yield what could be `module:name` in a text, or in its words as a shell splits them, with placeholders."""
    for word in _parts(text):
        for before, after in pairwise(word.split(":")):
            attribute = _ATTRIBUTE.match(after)
            if attribute is None:
                continue
            modules = [found[0][::-1] for pattern in _MODULES if (found := pattern.match(before[::-1]))]
            for module in dict.fromkeys(modules):
                name = f"{module}:{attribute[0]}"
                if FULL_NAME.fullmatch(_PLACEHOLDER.sub("1", name)) is not None:
                    yield name


def _parts(text: str) -> list[str]:
    """Return a text, its words, and the words of these."""
    found, words = {text: None}, [text]
    for _ in range(_SPLITS):
        words = [part for word in words for part in _split(word) if part not in found]
        found.update(dict.fromkeys(words))
    return list(found)


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote without its end
        return []


def _is_full_name(name: Any) -> bool:
    return isinstance(name, str) and len(name) <= LONGEST_NAME and FULL_NAME.fullmatch(name) is not None


def _require_trust(module: str, allowed: frozenset[str], what: str) -> None:
    package = top_package(module)
    if package not in allowed:
        known = ", ".join(sorted(allowed)) or "none"
        raise UntrustedName(f"{what} is refused: {package} is not among the trusted packages ({known})", package)
