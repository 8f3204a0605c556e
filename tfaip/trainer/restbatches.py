"""Validation batches that cannot be split equally on several devices: each device gets them whole. JAX only."""

from __future__ import annotations

from typing import Any

from tfaip.data.pipeline.batching import Batch
from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.typing import Logs


class RestBatches:
    """Holds back what cannot be split, until all the rest is evaluated.

    Args:
        num_shares: parts that a batch is split into.
    """

    def __init__(self, num_shares: int) -> None:
        self._num_shares = num_shares
        self.batches: list[Batch] = []

    def is_split(self, batch: Batch) -> bool:
        """Whether the batch can be split; else it is kept for `evaluate`."""
        if batch.size % self._num_shares == 0:
            return True
        self.batches.append(batch)
        return False

    def evaluate(self, model: TrainingModel) -> Logs:
        """Go on with the evaluation that `model.evaluate` has begun; returns the values of all batches."""
        import jax

        groups: Any = (model.trainable_variables, model.non_trainable_variables, model.metrics_variables)
        state = tuple([variable.value for variable in group] for group in groups)
        step = jax.jit(model.test_step)
        for batch in self.batches:
            # NumPy arrays of a compiled function are the same on all devices.
            _, state = step(state, ((batch.inputs, batch.targets),))
        for group, values in zip(groups[1:], state[1:], strict=True):
            for variable, value in zip(group, values, strict=True):
                variable.assign(value)
        return {name: float(value) for name, value in model.get_metrics_result().items()}
