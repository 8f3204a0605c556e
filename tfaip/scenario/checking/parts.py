"""Classes that a scenario consists of, as far as they are in its own package."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

from tfaip.params.tree.nodes import nodes_of

# Methods of a scenario that name classes.
_CLASS_METHODS = (
    *("data_cls", "model_cls", "evaluator_cls", "trainer_cls", "lav_cls", "multi_lav_cls"),
    *("predictor_cls", "multi_predictor_cls", "predict_generator_params_cls", "trainer_pipeline_params_cls"),
)
# Methods of params that name the classes that they describe.
_PARAMS_METHODS = ("cls", "graph_cls")


def classes_of(scenario: type, params: Any) -> list[type]:
    """Return the classes of a scenario: its own, those of its params, and those that both name.

    Args:
        scenario: the class of the scenario.
        params: its trainer params.
    """
    found: list[Any] = [scenario, *_named(scenario, _CLASS_METHODS)]
    for node in nodes_of(params):
        found += [type(node), *_named(node, _PARAMS_METHODS)]
    return [cls for cls in dict.fromkeys(found) if isinstance(cls, type)]


def _named(owner: Any, methods: Iterable[str]) -> list[Any]:
    """Return what the methods return; one that fails, or is missing, names nothing."""
    found = []
    for name in methods:
        method = getattr(owner, name, None)
        with contextlib.suppress(Exception):  # code of the user, which other parts of the check try
            if method is not None:
                found.append(method())
    return found


def own_bases(classes: Iterable[type], package: str) -> list[type]:
    """Return the classes, and those that they derive from, which a package defines."""
    found: dict[type, None] = {}
    for cls in classes:
        for base in cls.__mro__:
            if is_inside(base.__module__, package):
                found[base] = None
    return list(found)


def is_inside(module: str, package: str) -> bool:
    """Return True if a module is a package or below it."""
    return module == package or module.startswith(f"{package}.")
