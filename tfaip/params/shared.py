"""Values that several branches of a tree share: declared with `shared()`, filled in from the tree."""

from __future__ import annotations

import functools
import inspect
from typing import Any


class Shared:
    """Attribute of params that holds other params of the same scenario; see `shared`."""

    # Read from the class body by `take_shared`.
    declared: Any = None
    owner: Any = None
    name = ""

    def __get__(self, node: Any, owner: Any = None) -> Any:
        if node is None:
            return self
        try:
            return vars(node)[self.name]
        except KeyError:
            cls, kind = type(node).__name__, self.kind
            raise AttributeError(
                f"{cls}.{self.name} is not there yet: it is filled in from the scenario that the part belongs to; "
                f"outside of one, give the {kind}, as in {cls}({self.name}={kind}(...))",
                name=self.name,
                obj=node,
            ) from None

    def __set__(self, node: Any, value: Any) -> None:
        vars(node)[self.name] = value

    @property
    def kind(self) -> str:
        """Name of the declared class."""
        name = self.declared if isinstance(self.declared, str) else getattr(self.declared, "__name__", self.declared)
        return str(name).rpartition(".")[2]


def shared() -> Any:
    """Declare params that are filled in from the scenario: `data: LineData = shared()`.

    The attribute becomes the params of the declared class in the tree of the scenario, the very
    object: of the data first, otherwise of any other part, if there is only one. It is no field: it
    has no flag, is not stored, and does not count in comparisons. It is there in the code of the part
    (generator, processor, evaluator, model, graph), not in `__post_init__`. Outside of a scenario,
    give it to the constructor (by its name), or set it.
    """
    return Shared()


def take_shared(cls: type) -> None:
    """Take the attributes that are declared with `shared()` out of the annotations of a new class.

    Raises:
        TypeError: if one has no annotation, or the name of an inherited field.
    """
    annotations = dict(inspect.get_annotations(cls))
    for name, value in list(vars(cls).items()):
        if not isinstance(value, Shared):
            continue
        if name not in annotations:
            raise TypeError(f"{cls.__qualname__}.{name} = shared() needs a class: write {name}: MyData = shared()")
        if name in getattr(cls, "__dataclass_fields__", {}):
            raise TypeError(f"{cls.__qualname__}.{name} = shared() would hide a field: choose another name")
        value.owner, value.name, value.declared = cls, name, annotations.pop(name)
        cls.__annotations__ = annotations


def shared_of(cls: Any) -> dict[str, Shared]:
    """Return the shared attributes of a class, with those that it inherits, by name."""
    return _shared_of(cls)


@functools.cache
def _shared_of(cls: Any) -> dict[str, Shared]:
    found: dict[str, Shared] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            found.pop(name, None)  # replaced by something else
            if isinstance(value, Shared):
                found[name] = value
    return found
