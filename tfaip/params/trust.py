"""Trust in names: what files may name, `module:name`, and its import once it is allowed."""

from __future__ import annotations

import dataclasses
import importlib
import re
import sys
from collections.abc import Iterable
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, get_origin

from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.params.names import OWN_PACKAGE, RENAMED_CLASSES, nearest, top_package
from tfaip.util.text import shorten, shorten_text

T = TypeVar("T")

_MARK = "__nameable__"


def nameable(named: T) -> T:
    """Mark a function or class as made for params: files may name it.

    As a decorator::

        @nameable
        def inverse(epoch: float) -> float:
            return 1e-3 / (1 + epoch)

    The params of a run, its checkpoints and config files may come from somebody else. Of the scenario's own package
    they may name only what is marked: any other function could be called with arguments that the file chooses. What you
    type on the command line, or give in Python, needs no mark, nor does a package that you trust (`--trust`).

    A wrapper that `functools.wraps` makes of a marked function has the mark as well.
    """
    setattr(named, _MARK, True)
    return named


def is_nameable(found: Any) -> bool:
    """Return True if an object itself has the mark, or `functools.wraps` copied it; a class does not inherit it."""
    return getattr(found, "__dict__", {}).get(_MARK) is True


def is_made_for_params(found: Any, with_params: bool = True) -> bool:
    """Return True for what has the mark, classes derived from those of Keras, and (`with_params`) classes of params."""
    if not isinstance(found, type):
        return is_nameable(found)
    # By name, since nothing here loads a backend.
    is_of_keras = any(base.__module__.partition(".")[0] == "keras" for base in found.__mro__[1:])
    is_params = dataclasses.is_dataclass(found) and hasattr(found, "__pai_dataclass__")
    return is_nameable(found) or is_of_keras or (with_params and is_params)


FULL_NAME = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*:[A-Za-z_]\w*", re.ASCII)
# A class may be in the body of another one, as the params classes that are made for a scenario are.
CLASS_NAME = re.compile(rf"{FULL_NAME.pattern}(?:\.[A-Za-z_]\w*)*", re.ASCII)
# Attribute of a params class that was made from the parts of a scenario: the name of the scenario.
SCENARIO_MARK = "__scenario__"
# Far more than any name has: it is shown in messages, and becomes a path when it is imported.
_LONGEST_NAME = 200


def class_name(cls: type) -> str:
    """Return the `module:Class` under which stored params name a class.

    Raises:
        TypeError: it is defined in a function or in a notebook, so no name could find it again.
    """
    scenario = vars(cls).get(SCENARIO_MARK)
    if "<locals>" in cls.__qualname__:
        shown = scenario or cls.__qualname__
        raise TypeError(f"{shown} cannot be stored: move it to the top level of {cls.__module__}")
    if scenario and cls.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        raise TypeError(
            f"{scenario} cannot be stored: no other program can import a class of a notebook, move it to a module"
        )
    return f"{cls.__module__}:{cls.__qualname__}"


def is_full_name(name: Any, pattern: re.Pattern[str] = FULL_NAME) -> bool:
    """Return True for `module:name` of a length that names have."""
    return isinstance(name, str) and len(name) <= _LONGEST_NAME and pattern.fullmatch(name) is not None


class OwnPackage(str):
    """Name of a package whose code runs already, such as that of the scenario.

    Among trusted packages it means less than another text: a file may name its classes of params, and what is marked
    with `nameable`.
    """

    __slots__ = ()


class Trust(NamedTuple):
    """Modules and objects that a file may name.

    Args:
        packages: packages of which it may name everything, since the user trusts them.
        own: packages of which it may name classes of params, and what is marked.
    """

    packages: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> Trust:
        """Return the trust in packages, some of which may be `OwnPackage`."""
        names = list(names)
        own = frozenset(str(name) for name in names if isinstance(name, OwnPackage))
        return cls(frozenset(name for name in names if not isinstance(name, OwnPackage)), own)

    def and_code_of(self, declared: Any) -> Trust:
        """Return this and the package of a declared class, whose code runs already; `tfaip` is not among them."""
        if declared is object:
            return self
        package = top_package((get_origin(declared) or declared).__module__)
        return self._replace(own=self.own | ({package} - {OWN_PACKAGE}))

    def require(self, name: str, what: str, also: Iterable[str] = ()) -> None:
        """Raise unless a file may name something of a package.

        Args:
            name: of a module.
            what: is named, for messages.
            also: further packages.

        Raises:
            UntrustedName: refused.
        """
        allowed = {*self.packages, *self.own, *also}
        package = top_package(name)
        if package not in allowed:
            known = ", ".join(sorted(allowed)) or "none"
            raise UntrustedName(f"{what} is refused: {package} is not among the trusted packages ({known})", package)
        # Also of "package.__main__.other": to find the other module, Python imports the parent first.
        if "__main__" in name.split(".")[1:] and package not in self.packages:
            raise UntrustedName(f"{what} is refused: to import it would run the program {package}", package)

    def require_made(self, found: Any, name: str, what: str, is_function: bool = False) -> None:
        """Raise unless a file may name something that is not a class of params.

        Args:
            found: what the name means.
            name: of the module that it was found in.
            what: is named, for messages.
            is_function: it will be called, so that a class of params needs the mark, too.

        Raises:
            UntrustedName: it is neither marked nor of a trusted package, or was imported from a package that is not.
        """
        home = getattr(found, "__module__", None) or ""
        is_made = is_made_for_params(found, not is_function)
        also = {OWN_PACKAGE} if is_made else ()
        self.require(home, f"{what}, defined in {home},", also)
        for package in {top_package(name): None, top_package(home): None}:
            if package not in self.packages and not is_made:
                raise UntrustedName(
                    f"{what} is refused: a file may name it only if it is marked with tfaip.params.nameable", package
                )


class UntrustedName(UsageError):
    """A file names something that it must not.

    Args:
        refusal: what, and why.
        package: that would have to be trusted; empty if no package would do, since the name is not complete.
    """

    def __init__(self, refusal: str, package: str) -> None:
        self.refusal, self.package = refusal, package
        advice = f"trust it: --trust {package}" if package else "write the name in full"
        super().__init__(f"{refusal}; if you know the file, {advice}")


class NotImportable(FieldError):
    """A class or function that cannot be imported."""


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
    except (Exception, SystemExit) as error:  # a module may raise anything while it is imported
        reason = f"{type(error).__name__}: {shorten_text(str(error))}"
        hint = ": put its directory on the PYTHONPATH" if isinstance(error, ModuleNotFoundError) else ""
        raise NotImportable(place, name, f"a module that can be imported ({reason}){hint}") from error
    found: Any = module
    for part in attribute.split("."):  # of a class only other classes are looked up
        found = getattr(found, part, None) if found is module or isinstance(found, type) else None
    if found is None or (kind != "class" and not callable(found)):
        known = [key for key, value in vars(module).items() if isinstance(value, type | FunctionType)]
        near = nearest(attribute, known)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise NotImportable(place, name, f"a {kind} that module {shorten_text(module_name)} has{hint}")
    return found


def find_class(name: Any, declared: Any, trusted: Trust | None, place: str) -> type:
    """Return the params class that a file names.

    Args:
        name: value of `__cls__`, expected to be `module:Class`.
        declared: type of the field; the class must be a subclass.
        trusted: what the file may name, besides classes of `tfaip` and of the package of `declared`; None: the user has
            named the class, which may be any.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    current = RENAMED_CLASSES.get(name, name) if isinstance(name, str) else name
    if not is_full_name(current, CLASS_NAME):
        raise UsageError(f"{place}: __cls__ is {shorten(name)}, expected 'module:Class'")
    module, what = current.partition(":")[0], f"{place}: __cls__ {shorten(name)}"
    if trusted is not None:
        trusted = trusted.and_code_of(declared)
        trusted.require(module, what, {OWN_PACKAGE})
    cls = import_named(current, place, "class")
    base = get_origin(declared) or declared
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls) and issubclass(cls, base)):
        raise UsageError(f"{place}: {shorten(name)} is not a params class derived from {base.__name__}")
    if trusted is not None:
        if base is object:  # any type; a dataclass that is not made for params may do anything when it is built
            trusted.require_made(cls, module, what)
        # An allowed module may import a class from one that is not, and hold it by another name.
        trusted.require(cls.__module__, f"{what}, defined in {cls.__module__},", {OWN_PACKAGE})
    return cls


def check_function(name: str, trusted: Trust, place: str) -> None:
    """Raise unless a file may name a function.

    Those of `tfaip` read and write files and import modules; a file could choose their arguments, too.

    Args:
        name: `module:function`.
        trusted: what the file may name.
        place: dotted path, for messages.

    Raises:
        UsageError: refused, always before anything is imported that is not trusted; or not found.
    """
    if not is_full_name(name):
        raise UsageError(f"{place}: expected module:function, got {shorten(name)}")
    module, what = name.partition(":")[0], f"{place}: function {shorten(name)}"
    trusted.require(module, what)
    trusted.require_made(import_named(name, place, "function"), module, what, is_function=True)


_NAME_IN_TEXT = re.compile(rf"(?<![\w.])(?=({FULL_NAME.pattern}))", re.ASCII)


def check_text(text: str, trusted: Trust, place: str) -> None:
    """Raise unless a file may give a text as the value of a field, which may name classes and functions.

    Args:
        text: what would follow the flag of the field; every `module:name` in it counts.
        trusted: what the file may name, besides classes of params of `tfaip`.
        place: dotted path, for messages.

    Raises:
        UntrustedName: if a package is not trusted, always before anything of it is imported.
    """
    # Without what a shell takes out of words, however often they are split.
    plain = re.sub(r"[\"'\\]", "", text)
    for name in dict.fromkeys(found[1] for found in _NAME_IN_TEXT.finditer(plain)):
        module, what = name.partition(":")[0], f"{place}: {shorten(name)}"
        trusted.require(module, what, {OWN_PACKAGE})
        try:
            found = import_named(name, place, "object")
        except NotImportable:
            continue  # maybe no name at all
        trusted.require_made(found, module, what)
