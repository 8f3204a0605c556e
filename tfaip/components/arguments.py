"""Hooks of a scenario for further constructor arguments of its components."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

# Component -> its hooks, in the order of the calls; later ones win. A scenario defines those that
# it needs.
HOOKS: Mapping[str, tuple[str, ...]] = {
    "data": ("static_data_kwargs", "additional_data_kwargs"),
    "model": ("static_model_kwargs", "additional_model_kwargs"),
    "graph": ("static_graph_kwargs", "additional_graph_kwargs", "additional_root_graph_kwargs"),
    "evaluator": ("static_evaluator_kwargs", "additional_evaluator_kwargs"),
}


def further_arguments(scenario: Any, part: str, offered: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Call the hooks of one component and return all arguments that they return.

    Args:
        scenario: the scenario, whose methods the hooks are.
        part: key of `HOOKS`.
        offered: name -> function that makes the value. A hook gets those values that its parameters
            name, so a component is built only for the hooks that use it.

    Raises:
        TypeError: if a hook is no method, needs another argument, or returns no dict.
    """
    found: dict[str, Any] = {}
    for name in HOOKS[part]:
        hook = getattr(scenario, name, None)
        if hook is None:
            continue
        shown = f"{type(scenario).__name__}.{name}"
        given = hook(**{argument: offered[argument]() for argument in _taken(hook, offered, shown)})
        if not isinstance(given, Mapping):
            raise TypeError(f"{shown} gave a {type(given).__name__}, expected a dict of constructor arguments")
        found.update(given)
    return found


def _taken(hook: Callable[..., Any], offered: Mapping[str, Any], shown: str) -> list[str]:
    """Return the names of the offered values that a hook takes; all if it has `**kwargs`."""
    try:
        parameters = inspect.signature(hook).parameters.values()
    except (TypeError, ValueError):  # an attribute or a property, or a method without `self`
        raise TypeError(
            f"{shown} is no method that can be called: expected a method that returns a dict of constructor arguments"
        ) from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return list(offered)
    for parameter in parameters:
        is_given = parameter.kind is not parameter.POSITIONAL_ONLY and parameter.name in offered
        if not is_given and parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            raise TypeError(f"{shown} needs the argument {parameter.name!r}; it may take {', '.join(offered)}")
    return [parameter.name for parameter in parameters if parameter.name in offered]
