"""Notes of `--help` on modules of the user that import a backend."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator
from types import FunctionType, ModuleType

from tfaip.params.trust import top_package

_BACKENDS = {"keras", "tensorflow", "jax"}


def backend_notes(packages: Collection[str]) -> Iterator[str]:
    """Yield a line for each module of the packages of the user that imports a backend: commands wait for it."""
    for name, module in sorted(sys.modules.items()):
        if top_package(name) not in packages:
            continue
        # A module is imported as itself, or by a class or function that is defined in it.
        values = list(vars(module).values())
        homes = [value.__name__ for value in values if isinstance(value, ModuleType)]
        homes += [str(value.__module__) for value in values if isinstance(value, type | FunctionType)]
        found = sorted(_BACKENDS & set(map(top_package, homes)))
        if found:
            yield (
                f"note: {name} imports {' and '.join(found)}, which --help and data workers wait for: import it within "
                "the methods that need it"
            )
