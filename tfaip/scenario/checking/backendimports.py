"""Backends that are imported with the params of a scenario: `--help` and the data workers wait for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from tfaip.scenario.checking.finding import Finding, Kind
from tfaip.scenario.checking.parts import is_inside
from tfaip.scenario.checking.sources import Import, Source, imports_at_start, read_source

BACKENDS = frozenset({"flax", "jax", "keras", "tensorflow", "tensorflow_addons", "tf_keras", "torch"})
_TOOLKIT = "tfaip"


def find_backend_imports(roots: Iterable[str], package: str) -> list[Finding]:
    """Return the imports of a package that load a backend when some of its modules are imported.

    Args:
        roots: modules that are imported without a backend: of the scenario, its params, data, and processors.
        package: that of the scenario.
    """
    findings = []
    for source in _reached(roots, package):
        for imported in imports_at_start(source):
            backend = _loaded_backend(imported, package)
            if backend is not None:
                findings.append(_finding(source, imported, backend))
    return list(dict.fromkeys(findings))


def _reached(roots: Iterable[str], package: str) -> Iterator[Source]:
    """Yield the modules of the package that are imported with the roots, each once."""
    left, seen = list(roots), set()
    while left:
        module = left.pop(0)
        if module in seen or not is_inside(module, package):
            continue
        seen.add(module)
        source = read_source(module)
        if source is None:
            continue
        yield source
        left.append(module.rpartition(".")[0])
        for imported in imports_at_start(source):
            left += _modules(imported)


def _modules(imported: Import) -> list[str]:
    """Return the modules that an import may load: a name may be a module, too."""
    return [imported.module] if imported.name is None else [imported.module, f"{imported.module}.{imported.name}"]


def _loaded_backend(imported: Import, package: str) -> str | None:
    """Return the backend that a statement loads by itself, or through the toolkit."""
    top = imported.module.partition(".")[0]
    if top in BACKENDS:
        return top
    if top != _TOOLKIT or is_inside(imported.module, package):
        return None
    if imported.name is not None:
        defining = _defined_in(imported.module, imported.name)
        if defining is not None:
            return _backend_of(defining)
    loaded = (_backend_of(module) for module in _modules(imported))
    return next((backend for backend in loaded if backend is not None), None)


@cache
def _defined_in(module: str, name: str) -> str | None:
    """Return the module that a lazy one takes a name from; its stub says it."""
    source = read_source(module)
    stub = None if source is None else source.path.with_suffix(".pyi")
    if source is None or stub is None or not stub.exists():
        return None
    import ast

    listed = Source(module, stub, ast.parse(stub.read_bytes()))
    for imported in imports_at_start(listed):
        if imported.name == name:
            return imported.module
    return None


@cache
def _backend_of(module: str) -> str | None:
    """Return the backend that a module of the toolkit loads when it is imported; None: none."""
    for source in _reached([module], _TOOLKIT):
        for imported in imports_at_start(source):
            top = imported.module.partition(".")[0]
            if top in BACKENDS:
                return top
    return None


def _finding(source: Source, imported: Import, backend: str) -> Finding:
    direct = imported.module.partition(".")[0] == backend
    what = f"imports {imported.module}" if direct else f"imports {backend} through {imported.module}"
    return Finding(
        str(source.path),
        imported.line,
        Kind.BACKEND_IMPORT,
        f"{source.module} {what}: --help and the data workers wait for it",
        "import it in the function that uses it, or under TYPE_CHECKING; specs may be tfaip.imports.TensorSpec",
    )
