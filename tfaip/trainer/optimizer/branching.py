"""What depends on backend and devices: branches of the compiled step, sums over devices, reading what is on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import keras
from keras import ops

from tfaip.util.typing import Tensor


def branch(
    predicate: Tensor,
    then: Callable[[], None],
    otherwise: Callable[[], None],
    variables: Sequence[keras.Variable],
) -> None:
    """Run one of two functions, and only that one.

    Args:
        predicate: a boolean scalar.
        then: assigns variables, if the predicate is true.
        otherwise: likewise, if it is false.
        variables: everything that the two may read or assign.
    """
    if keras.backend.backend() != "jax":
        ops.cond(predicate, then, otherwise)
        return
    import jax

    if not isinstance(predicate, jax.core.Tracer):
        # Not compiled: a condition of JAX would be, anew in every step.
        (then if predicate else otherwise)()
        return
    # JAX has no assignments: each branch computes all new values, which are assigned outside.
    before = [(variable, variable.value) for variable in variables]

    def values_after(function: Callable[[], None]) -> list[Tensor]:
        with keras.StatelessScope(state_mapping=before) as scope:
            function()
        return [scope.get_current_value(variable) for variable in variables]

    after = ops.cond(predicate, lambda: values_after(then), lambda: values_after(otherwise))
    for variable, value in zip(variables, after, strict=True):
        variable.assign(value)


def summed_over_replicas(gradients: list[Tensor]) -> list[Tensor]:
    """The gradients of the whole batch, equal on all replicas of a distribution strategy of TensorFlow.

    On JAX, and without a strategy, gradients are those of the whole batch already.
    """
    if keras.backend.backend() != "tensorflow":
        return gradients
    import tensorflow as tf

    if not tf.distribute.has_strategy():
        return gradients
    context = tf.distribute.get_replica_context()
    return list(context.all_reduce(tf.distribute.ReduceOp.SUM, gradients))


def value_of(variable: keras.Variable) -> int:
    """The value of an integer variable, also of one that has a copy on each of several devices, which has no number."""
    return int(variable + 0)
