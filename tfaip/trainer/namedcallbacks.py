"""Callbacks that the params of a training name."""

from __future__ import annotations

from typing import Any

import keras

from tfaip.components.scenario import ScenarioComponents
from tfaip.params.fields import FieldError
from tfaip.params.types import FunctionByName
from tfaip.trainer.runparams import Params

# What the constructor of a callback may take by name.
_OFFERED = ("params", "scenario")


def named_callbacks(params: Params, scenario: ScenarioComponents[Any, Any]) -> list[keras.callbacks.Callback]:
    """Build the callbacks of `trainer.callbacks`.

    Args:
        params: the params of the run.
        scenario: the scenario to train.

    Raises:
        FieldError: if there is no such class, it needs other arguments, or does not give a callback.
    """
    callbacks = []
    for index, name in enumerate(params.callbacks):
        try:
            build = FunctionByName(name, _OFFERED, "callbacks")
        except FieldError as error:
            error.index = index
            raise
        callback = build(params=params, scenario=scenario)
        if not isinstance(callback, keras.callbacks.Callback):
            expected = f"a Keras callback; it gives {type(callback).__name__}"
            raise FieldError("callbacks", name, expected, index=index)
        callbacks.append(callback)
    return callbacks
