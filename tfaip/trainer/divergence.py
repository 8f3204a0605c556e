"""Ends a training whose optimizer has stopped, because too many updates in a row were not finite."""

from __future__ import annotations

import time

import keras

from tfaip.errors import TfaipError
from tfaip.model.trainingmodel import TrainingModel

LOOK_EVERY_S = 1.0


class TrainingDiverged(TfaipError):
    """The loss or its gradients are not finite."""


class DivergenceCheck:
    """Looks at the optimizer now and then.

    That takes a synchronisation with the device, so it is not done after every step. Nothing is lost: the optimizer
    decides within the step, and changes nothing from then on.

    Args:
        model: the training model, compiled.
        accum_steps: batches per update.
    """

    def __init__(self, model: TrainingModel, accum_steps: int) -> None:
        self._model = model
        self._accum_steps = accum_steps
        self._epoch = 0
        self._before_epoch = 0
        self._looked = time.monotonic()

    def begin_epoch(self, epoch: int, done: int) -> None:
        """Tell which epoch it is.

        Args:
            epoch: from 1.
            done: batches of it that are trained already.
        """
        self._epoch = epoch
        self._before_epoch = self._model.optimizer.batches - done

    def look_now_and_then(self) -> None:
        """`look`, if it was not done for a while; within `fit`."""
        if time.monotonic() - self._looked >= LOOK_EVERY_S:
            self.look()

    def look(self) -> None:
        """Look.

        Raises:
            TrainingDiverged: the optimizer has stopped; all weights are those from before.
        """
        if keras.backend.backend() == "jax":
            # Within fit the values live in the compiled loop, not in the variables.
            self._model.jax_state_sync()
        stopped = self._model.optimizer.stopped_at()
        self._looked = time.monotonic()
        if stopped is not None:
            raise TrainingDiverged(self._message(*stopped))

    def _message(self, last_batch: int, updates: int) -> str:
        last = last_batch - self._before_epoch + 1
        first = last - self._accum_steps + 1
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        where = f"{batches} of epoch {self._epoch}" if first > 0 else f"the last batches of epoch {self._epoch - 1}"
        row = "" if updates == 1 else f"{updates} updates in a row, from "
        return (
            f"the loss or its gradients were not finite in {row}{where}; no weight has changed since. Lower "
            "--learning_rate.lr, clip with --optimizer.clip_global_norm, check the data, or skip such updates with "
            "--optimizer.skip_nonfinite"
        )
