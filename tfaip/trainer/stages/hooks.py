"""Hooks of a scenario that return params of stages: `pretraining` and `params_for_epoch`."""

from __future__ import annotations

import inspect
from typing import Any

from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import UsageError
from tfaip.params.storable import prepare
from tfaip.params.tree import diff
from tfaip.trainer.stages.overrides import check_own, copy_for_stage, drop_schedules
from tfaip.util.construction import construct
from tfaip.util.overriding import overrides
from tfaip.util.text import shorten

_HOOKS = ("pretraining", "params_for_epoch")


def has_hooks(scenario: Any) -> bool:
    """Return True if a scenario, or its class, overrides a hook."""
    return bool(_overridden(scenario))


def scenario_with_hooks(scenario: Any, plain: Any) -> Any:
    """Return the class or the object whose hooks can be called.

    Args:
        scenario: the scenario or its class.
        plain: trainer params without stages.
    """
    if not isinstance(scenario, type):
        return scenario
    are_methods = any(inspect.isfunction(inspect.getattr_static(scenario, name)) for name in _overridden(scenario))
    return construct(scenario, copy_for_stage(plain).scenario) if are_methods else scenario


def name_of(scenario: Any) -> str:
    """Return the name of the class of a scenario."""
    cls: type = scenario if isinstance(scenario, type) else type(scenario)
    return cls.__name__


def ask_for_stage(scenario: Any, index: int, plain: Any) -> tuple[Any, int | None] | None:
    """Return the params of a stage of the pretraining, and its number of epochs if the hook says it.

    Args:
        scenario: the scenario.
        index: of the stage, from 0.
        plain: trainer params without stages; the hook gets a copy.

    Returns:
        None if the pretraining has ended.

    Raises:
        UsageError: if the hook returns something else, or params that cannot work.
    """
    result = scenario.pretraining(index, copy_for_stage(plain))
    if result is None:
        return None
    params, epochs = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
    is_number = isinstance(epochs, int) and not isinstance(epochs, bool) and epochs >= 1
    call = f"pretraining({index}, params) of {name_of(scenario)}"
    if type(params) is not type(plain) or not (epochs is None or is_number):
        raise UsageError(
            f"{call} returned {_shown(result)}, expected {type(plain).__name__}, a tuple of it and a number of epochs "
            "of at least 1, or None at the end"
        )
    return _checked(params, plain, call), epochs


def ask_for_epoch(scenario: Any, epoch: int, plain: Any, **kwargs: Any) -> Any | None:
    """Return the params of an epoch, or None: those of the run.

    Args:
        scenario: the scenario.
        epoch: from 1.
        plain: trainer params without stages; the hook gets a copy.
        kwargs: further arguments of the hook.

    Raises:
        UsageError: if the hook returns something else, or params that cannot work.
    """
    params = scenario.params_for_epoch(epoch, copy_for_stage(plain), **kwargs)
    if params is None:
        return None
    call = f"params_for_epoch({epoch}, params) of {name_of(scenario)}"
    if type(params) is not type(plain):
        raise UsageError(f"{call} returned {_shown(params)}, expected {type(plain).__name__}, or None at the end")
    return _checked(params, plain, call)


def asks_for_history(scenario: Any) -> bool:
    """Return True if the hook `params_for_epoch` has an argument `history`, so that only the training can ask it."""
    return "history" in inspect.signature(scenario.params_for_epoch).parameters


def _checked(params: Any, plain: Any, call: str) -> Any:
    """Return params of a hook after all checks; those of the hook itself may change with its next call."""
    params = copy_for_stage(params)
    try:
        prepare(params, plain.flag_root)
        check_own(plain, params)
        if params.schedules:
            drop_schedules(params, _changed_paths(plain, params))
    except (UsageError, ValueError) as error:
        raise UsageError(f"{call}: {error}") from error
    return params


def _changed_paths(plain: Any, params: Any) -> list[str]:
    """Return the paths of what a hook has changed, of dicts those of the items."""
    paths: list[str] = []
    for change in diff(plain, params):
        if isinstance(change.old, dict) and isinstance(change.new, dict):
            keys = dict.fromkeys([*change.old, *change.new])
            paths += [f"{change.path}.{key}" for key in keys if change.old.get(key) != change.new.get(key)]
        else:
            paths.append(change.path)
    return paths


def _shown(value: Any) -> str:
    return type(value).__name__ if hasattr(value, "__dataclass_fields__") else shorten(value)


def _overridden(scenario: Any) -> list[str]:
    cls = scenario if isinstance(scenario, type) else type(scenario)
    return [name for name in _HOOKS if overrides(cls, ScenarioComponents, name)]
