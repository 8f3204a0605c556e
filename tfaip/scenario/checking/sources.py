"""Source files of the package of a scenario, and what their statements import; nothing is executed."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path

from tfaip.util.reading import read_bytes

# Bytes of a file; larger ones are tables, not code that a person writes.
_MAX_BYTES = 2_000_000
_MAX_FILES = 2000


@dataclass(frozen=True)
class Source:
    """A parsed Python file.

    Args:
        module: dotted name.
        path: of the file.
        tree: its statements.
    """

    module: str
    path: Path
    tree: ast.Module

    @property
    def is_package(self) -> bool:
        """True for the `__init__.py` of a package."""
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Import:
    """One name that a statement imports.

    Args:
        module: that is imported, without leading dots.
        name: taken from it; None: `import module`.
        line: of the statement.
    """

    module: str
    name: str | None
    line: int


def package_name(module: str) -> str:
    """Return the package that a module is in; the module itself if it is in none."""
    return getattr(sys.modules[module], "__package__", None) or module


def read_package(name: str) -> list[Source]:
    """Return the source files of an imported package with all below it, or of a single module, sorted by path."""
    module = sys.modules[name]
    directories = [Path(directory) for directory in getattr(module, "__path__", [])]
    if not directories:
        source = read_source(name)
        return [] if source is None else [source]
    found = []
    for directory in directories:
        for path in sorted(directory.rglob("*.py"))[:_MAX_FILES]:
            parts = path.relative_to(directory).with_suffix("").parts
            if parts[-1] == "__init__":
                parts = parts[:-1]
            source = _parse(".".join([name, *parts]), path)
            if source is not None:
                found.append(source)
    return found


@cache
def read_source(module: str) -> Source | None:
    """Return the source of a module, which need not be imported; None: it has no Python file that can be parsed."""
    path = _find_file(module)
    return None if path is None else _parse(module, path)


def _parse(module: str, path: Path) -> Source | None:
    try:
        return Source(module, path, ast.parse(read_bytes(path, _MAX_BYTES)))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _find_file(module: str) -> Path | None:
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
        return Path(file) if file and file.endswith(".py") else None
    parent, _, _ = module.rpartition(".")
    spec = PathFinder.find_spec(module, _search_path(parent) if parent else None)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _search_path(package: str) -> Sequence[str]:
    """Return the directories of a package, which is not imported for it; none if it is no package."""
    if package in sys.modules:
        return list(getattr(sys.modules[package], "__path__", []))
    file = _find_file(package)
    return [str(file.parent)] if file is not None and file.name == "__init__.py" else []


def imports_at_start(source: Source) -> Iterator[Import]:
    """Yield what is imported when the module is: not in functions, and not for type checkers."""
    for statement in _executed(source.tree.body):
        yield from imports_of(source, statement)


def all_imports(source: Source) -> Iterator[Import]:
    """Yield what is imported anywhere in a file."""
    for node in ast.walk(source.tree):
        yield from imports_of(source, node)


def imports_of(source: Source, node: ast.AST) -> Iterator[Import]:
    """Yield what one statement imports."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, None, node.lineno)
    elif isinstance(node, ast.ImportFrom):
        module = _absolute(source, node)
        for alias in node.names:
            yield Import(module, alias.name, node.lineno)


def _absolute(source: Source, node: ast.ImportFrom) -> str:
    """Return the module of `from ..module import name` without the dots."""
    if node.level == 0:
        return node.module or ""
    parts = source.module.split(".")
    drop = node.level - 1 if source.is_package else node.level
    base = parts[: len(parts) - drop]
    return ".".join([*base, *([node.module] if node.module else [])])


def _executed(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import of the module executes."""
    for statement in statements:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in ast.unparse(statement.test):
            yield from _executed(statement.orelse)
            continue
        yield statement
        for part in ("body", "orelse", "finalbody"):
            yield from _executed(getattr(statement, part, []))
        for handler in getattr(statement, "handlers", []):
            yield from _executed(handler.body)
