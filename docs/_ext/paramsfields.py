"""Docstrings of the package as Sphinx needs them: code in double backticks, and the fields of params classes."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.rst import escape
from sphinx.util.typing import stringify_annotation

from tfaip.params import ParamsBase
from tfaip.params.fields import help_of, limits_of

# Code as Markdown writes it, as reStructuredText does, or what would be markup there.
CODE = re.compile(r"(?<![`:])`([^`]+)`(?!`)|(``[^`]+``)|(?<!\\)([*|])")


COLON = "\ue000"
PAGES = Path(__file__).parent.parent / "api"
DOCUMENTED = {name for page in PAGES.glob("*.md") for name in re.findall(r"autoclass:: (\w+)", page.read_text())}


def is_params(found: Any) -> bool:
    """Return True for params classes."""
    return isinstance(found, type) and issubclass(found, ParamsBase)


def hide_colons(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Hide colons from napoleon: it takes what an attribute's text has before the first one for its type."""
    if what in ("attribute", "data", "property"):
        lines[:] = [line.replace(":", COLON) for line in lines]


def process_docstring(app: Sphinx, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Mark code as reStructuredText does; name the bases of a class and list the fields of params after its text."""
    lines[:] = CODE.sub(marked, "\n".join(lines)).replace(COLON, ":").split("\n")
    if not isinstance(found, type):
        return
    bases = [base for base in found.__mro__[1:] if base.__name__ in DOCUMENTED]
    nearest = [base for base in bases if not any(issubclass(other, base) for other in bases if other is not base)]
    if nearest:
        lines += ["", f"Derived from {', '.join(f':py:class:`.{base.__name__}`' for base in nearest)}."]
    if is_params(found):
        for field in dataclasses.fields(found):
            known = any(field.name in vars(base).get("__dataclass_fields__", ()) for base in bases)
            if not known or field.name in vars(found).get("__annotations__", ()):
                lines += ["", *described(found, field)]


def marked(found: re.Match[str]) -> str:
    """Return code in double backticks, and other characters so that they are shown."""
    code, known, character = found.groups()
    return f"``{code}``" if code else known or f"\\{character}"


def described(cls: type, field: dataclasses.Field[Any]) -> Iterator[str]:
    """Yield the lines of the directive that describes a field: type, default, help text and range."""
    declared = field.type if isinstance(field.type, str) else stringify_annotation(field.type, "smart")
    yield f".. py:attribute:: {field.name}"
    yield f"   :type: {declared}"
    if (default := shown_default(field)) is not None:
        yield f"   :value: {default}"
    limits = limits_of(cls, field.name)
    span = limits.range_text() if limits is not None else ""
    yield ""
    yield f"   {escape(' '.join(help_of(cls, field.name).split()))}{f' ({span})' if span else ''}"


def shown_default(field: dataclasses.Field[Any]) -> str | None:
    """Return the default as Python writes it; of params their class; None if the field has to be given."""
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    factory = field.default_factory
    if factory is dataclasses.MISSING:
        return None
    try:
        default = factory()
    except TypeError:  # an abstract class, of which subclasses replace it
        return None
    return f"{type(default).__name__}()" if isinstance(default, ParamsBase) else repr(default)


def process_signature(app: Sphinx, what: str, name: str, found: Any, *rest: Any) -> tuple[str, None] | None:
    """Leave out the arguments of a params class, which are its fields."""
    return ("", None) if is_params(found) else None


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the hooks, one before and one after that of napoleon, whose priority is the usual one, 500."""
    app.connect("autodoc-process-docstring", process_docstring, priority=600)
    app.connect("autodoc-process-signature", process_signature)
    app.connect("autodoc-process-docstring", hide_colons, priority=400)
    return {"parallel_read_safe": True}
