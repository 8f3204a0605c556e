"""Classes that a field can hold, and the names that choose them."""

import functools
import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from tfaip.errors import UsageError
from tfaip.params import types
from tfaip.params.codec import plain_of
from tfaip.params.names import did_you_mean
from tfaip.params.trust import Trust, find_class
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

_CAMEL = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9_]+|[A-Z]+[0-9]*")


class ClassChoice:
    """Classes that one field can hold, by name.

    Args:
        declared: type of the field; choices are subclasses.
        meta: what `pai_meta` gave for the field: `choices`, `enforce_choices`, `disable_subclass_check`.
        also: further classes, such as the one of the default.
    """

    def __init__(self, declared: Any, meta: Mapping[str, Any], also: Sequence[type] = ()) -> None:
        self.declared = types.origin_of(declared)
        self.enforced = bool(meta.get("enforce_choices"))
        self.any_class = bool(meta.get("disable_subclass_check"))
        self._listed = [cls for cls in meta.get("choices") or () if isinstance(cls, type)]
        self._also = also

    @functools.cached_property
    def classes(self) -> list[type]:
        """All choices."""
        found = self._listed
        if not self.enforced:
            found = [*(self._listed or _subclasses(self.declared)), *self._also]
        return list(dict.fromkeys(found))

    def names(self) -> list[str]:
        """Return the short names of all choices."""
        return [self.name_of(cls) for cls in self.classes]

    def name_of(self, cls: type) -> str:
        """Return the short name that selects `cls`, or `module:Class` if that is ambiguous."""
        short = self._names(cls)[0]
        if cls in self.classes and sum(short in self._names(other) for other in self.classes) == 1:
            return short
        return full_name(cls)

    def lasting_name_of(self, cls: type) -> str:
        """Return a name that selects `cls` also if its module has not been imported yet."""
        is_imported = cls in self._listed or cls.__module__ == self.declared.__module__
        return self.name_of(cls) if is_imported else full_name(cls)

    def select(self, name: Any, flag: str, trusted: Trust | None = None) -> type:
        """Return the class of a name.

        Args:
            name: short name, class name, or `module:Class`, which is imported.
            flag: for messages.
            trusted: what a config file may name, besides classes of `tfaip` and of the package of the field's type;
                None: the user typed the name, which may be anything.

        Raises:
            UsageError: unknown or ambiguous name, failing import, or a class that does not fit.
        """
        if not isinstance(plain_of(name), str):
            raise UsageError(f"{flag}: expected the name of a class, got {shorten(plain_of(name))}")
        # A class name is clear, even if it looks like the short name of another class.
        matches = [cls for cls in self.classes if name == cls.__name__]
        matches = matches or [cls for cls in self.classes if name in self._names(cls)]
        if len(matches) > 1:
            full = shorten_text(", ".join(map(full_name, matches)), ERROR_LIMIT)
            raise UsageError(f"{flag}: {shorten_text(name)} may be any of {full}: name it completely")
        if matches:
            return matches[0]
        if ":" not in name:
            hint = did_you_mean(name, self.names())
            if not self.enforced:
                hint += " (or module:Class)"
            raise UsageError(f"{flag}: no class {shorten(name)}{hint}")
        cls = find_class(name, object if self.any_class else self.declared, trusted, flag)
        if self.enforced and cls not in self.classes:
            raise UsageError(f"{flag}: {shorten_text(name)} is not allowed here{did_you_mean(name, self.names())}")
        return cls

    def _names(self, cls: type) -> list[str]:
        """Return all names of a class, `alt` of `pai_dataclass` and short ones first."""
        plain = cls.__name__.removesuffix("Params") or cls.__name__
        # The words that the class has in common with the end of its base are left out one by one:
        # `AdamOptimizer` is `Adam` as an `OptimizerParams`.
        words = _CAMEL.findall(plain)
        base = _CAMEL.findall(self.declared.__name__.removesuffix("Params").removesuffix("Base"))
        names = [f"{plain}Params", cls.__name__, plain]
        while len(words) > 1 and base and words.pop() == base.pop():
            names += [f"{''.join(words)}Params", "".join(words)]
        if vars(cls).get("__alt_name__"):
            names.append(vars(cls)["__alt_name__"])
        return list(dict.fromkeys(reversed(names)))


def full_name(cls: type) -> str:
    """Return `module:Class`."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _is_base(cls: Any) -> bool:
    """Return True for a class to derive from: abstract, private, or without a `cls` of its own."""
    code = getattr(getattr(cls, "cls", None), "__code__", None)
    is_bare_part = getattr(cls, "_is_bare", bool)()
    must_override = code is not None and "NotImplementedError" in code.co_names
    return inspect.isabstract(cls) or cls.__name__.startswith("_") or must_override or is_bare_part


def _was_replaced(cls: type) -> bool:
    """Return True if the module of a class was dropped, or defines the name anew, as a cell of a notebook does."""
    module = sys.modules.get(cls.__module__)
    return module is None or vars(module).get(cls.__qualname__, cls) is not cls


def _subclasses(cls: Any) -> list[type]:
    found = [] if _is_base(cls) or _was_replaced(cls) else [cls]
    for subclass in type.__subclasses__(cls):
        found += _subclasses(subclass)
    return found
