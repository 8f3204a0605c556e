"""Compiled functions of batches on JAX; `tensorflowstep.py` has the same class for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import jax
import keras
import numpy as np


class CompiledStep:
    """A compiled function of batches that reads and assigns Keras variables.

    JAX compiles functions without state. So the values of all variables are arguments of what is compiled, and what
    the function has changed is among its results. These values are kept here between the calls: assigning Keras
    variables after every one would take longer than a tiny model.

    Args:
        function: of dicts or tuples of arrays whose first dimension is the batch.
        variables: all that the function reads; what it changes of them is kept for the next call.
        accumulators: further variables, which every call updates in place.
        run_eagerly: do not compile.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        variables: Iterable[keras.Variable] = (),
        accumulators: Iterable[keras.Variable] = (),
        run_eagerly: bool = False,
    ) -> None:
        self._function = function
        self._variables = list(variables)
        self._accumulators = list(accumulators)
        # The accumulators alone are given away: what a compiled function returns is a copy, of all weights if it
        # returned them.
        self._step = self._stateless if run_eagerly else jax.jit(self._stateless, donate_argnums=0)
        self._accumulated: list[Any] = []
        self._values: list[Any] = []
        self._changed: set[int] = set()

    def read(self, of_this_process: bool = False) -> None:
        """Take the values of all variables, on which the following calls work.

        `fit` and `evaluate` give the arrays of the variables away: call it again after them.

        Args:
            of_this_process: each process goes its own way from here, on a copy of its own.
        """

        def value(variable: keras.Variable) -> Any:
            return local_value(variable.value) if of_this_process else variable.value

        self._values = [value(variable) for variable in self._variables]
        # Copies: the step gives away what it gets of them.
        self._accumulated = [value(variable).copy() for variable in self._accumulators]
        self._changed = set()

    def __call__(self, *arrays: Any) -> Any:
        """Return the result of the function, on the device, which may still be at work on it."""
        result, self._accumulated, changed = self._step(self._accumulated, self._values, arrays)
        for position, value in changed.items():
            self._values[position] = value
            self._changed.add(position)
        return result

    def write_variables(self) -> None:
        """Assign what the calls have changed of the variables."""
        for position in self._changed:
            self._variables[position].assign(self._values[position])

    def write_accumulators(self) -> None:
        """Assign the accumulators."""
        for variable, value in zip(self._accumulators, self._accumulated, strict=True):
            # Its own copy: the next call gives ours away.
            variable.assign(value.copy())

    def accumulated(self) -> list[np.ndarray]:
        """Return the values of the accumulators."""
        return [np.array(value) for value in self._accumulated]

    def _stateless(
        self, accumulated: list[Any], values: list[Any], arrays: tuple[Any, ...]
    ) -> tuple[Any, list[Any], dict[int, Any]]:
        """Return the result of the function, the accumulators, and of the other variables those that it changed."""
        state = [*zip(self._accumulators, accumulated, strict=True), *zip(self._variables, values, strict=True)]
        with keras.StatelessScope(state, collect_losses=True) as scope:
            result = self._function(*arrays)
        after = [scope.get_current_value(variable) for variable in self._variables]
        changed = {i: new for i, (old, new) in enumerate(zip(values, after, strict=True)) if new is not old}
        return result, [scope.get_current_value(variable) for variable in self._accumulators], changed


def local_value(value: Any) -> Any:
    """Return an array, or what this process has of one that several share."""
    return value if value.is_fully_addressable else value.addressable_data(0)
