"""Params classes that are made for a scenario, and defined in its module."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Mapping
from typing import Any

from tfaip.params.declaration.generics import field_types
from tfaip.params.names.trust import SCENARIO_MARK
from tfaip.scenario.declared import params_class_names
from tfaip.trainer.params import TrainerParams


@functools.cache
def trainer_params_class(scenario: Any, pipeline_params: Any, trainer_cls: Any) -> Any:
    """Return the class of the trainer params of a scenario that is declared without one.

    It is made, and defined beside the scenario: `MyTrainerParams` of `MyScenario`. A class of the author
    takes its place: the one that the trainer is declared with, or one of the module with this name.

    Args:
        scenario: class of the scenario.
        pipeline_params: class of the params of its training and validation data, the field `gen`.
        trainer_cls: class of its trainer; None: that of the toolkit.
    """
    name = params_class_names(scenario)[2]
    in_module = vars(sys.modules.get(scenario.__module__, object)).get(name)
    for own in (_params_of_trainer(trainer_cls), in_module):
        if _is_written_for(own, scenario.params_cls()):
            return own
    base: Any = TrainerParams
    bases = (base[scenario.params_cls(), pipeline_params],)
    return make_class(scenario, name, bases, f"Training of {scenario.__name__}.", {})


def _params_of_trainer(trainer_cls: Any) -> Any:
    """Return the params class that a trainer was declared with, or None."""
    try:
        return None if trainer_cls is None else trainer_cls.params_cls()
    except TypeError:  # with none, as in Trainer[Any]
        return None


def _is_written_for(trainer_params: Any, scenario_params: type) -> bool:
    """Return True for trainer params that an author has declared for a class of scenario params."""
    is_params = isinstance(trainer_params, type) and issubclass(trainer_params, TrainerParams)
    if not is_params or trainer_params is TrainerParams or SCENARIO_MARK in vars(trainer_params):
        return False
    wanted = field_types(trainer_params)["scenario"]
    return isinstance(wanted, type) and issubclass(wanted, scenario_params)


def make_class(scenario: type, name: str, bases: tuple[Any, ...], doc: str, defaults: Mapping[str, Any]) -> Any:
    """Make a params class beside a scenario, whose inherited fields have the given defaults.

    Args:
        scenario: class of the scenario.
        name: of the new class.
        bases: of the new class.
        doc: its docstring, a heading of `--help`.
        defaults: values of fields.

    Raises:
        TypeError: if the module defines something else of this name.
    """
    path, dot, _ = scenario.__qualname__.rpartition(".")
    body = {
        "__module__": scenario.__module__,
        "__qualname__": f"{path}{dot}{name}",
        "__doc__": doc,
        SCENARIO_MARK: scenario.__qualname__,
        **defaults,
    }
    made = types.new_class(name, bases, exec_body=lambda namespace: namespace.update(body))
    module = sys.modules.get(scenario.__module__)
    if dot or module is None:
        return made  # inside a function or a class: no name leads to it
    taken = vars(module).get(name)
    # A cell of a notebook, or a module that is loaded again, replaces its own classes.
    if taken is not None and getattr(taken, "__dict__", {}).get(SCENARIO_MARK) != scenario.__qualname__:
        raise TypeError(
            f"{scenario.__qualname__} makes the params class {name}, but {scenario.__module__} defines {name} already: "
            "rename one of them"
        )
    setattr(module, name, made)
    return made
