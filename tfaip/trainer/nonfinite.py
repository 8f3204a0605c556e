"""Messages on losses, gradients and values that are not finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from tfaip.data.pipeline.batching import Batch
from tfaip.errors import TfaipError
from tfaip.model.nonfinite import first_not_finite
from tfaip.model.trainingmodel import TrainingModel
from tfaip.params.tree.places import flag_of
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run.names import EPOCH_MEAN, VALIDATION_PREFIX
from tfaip.util.logging import logger
from tfaip.util.text import number_text
from tfaip.util.typing import Logs

log = logger(__name__)

Params = TrainerParams[Any, Any]
OpenBatches = AbstractContextManager[Iterable[tuple[Batch, Any]]]


class TrainingDiverged(TfaipError):
    """The loss or its gradients are not finite.

    Args:
        params: of the training.
        epoch: number of the epoch, from 1.
        first: first batch of the first update that was not finite, from 1; below that, it is of the epoch before.
        last: its last batch.
        updates: number of such updates in a row.
        cause: what is first not finite; "": not known.
    """

    def __init__(self, params: Params, epoch: int, first: int, last: int, updates: int, cause: str = "") -> None:
        self.params, self.epoch, self.first, self.last, self.updates = params, epoch, first, last, updates
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        place = f"{batches} of epoch {epoch}" if first > 0 else f"the last batches of epoch {epoch - 1}"
        if updates > 1:
            place = f"{updates} updates in a row, from {place}"
        names = ("learning_rate.lr", "optimizer.clip_global_norm", "optimizer.skip_nonfinite", "debug_nonfinite")
        rate, clip, skip, debug = (flag_of(params, params.flag_root, name) for name in names)
        advice = "" if params.debug_nonfinite else f"; {debug} True names the layer"
        super().__init__(
            f"the loss or its gradients were not finite in {place}{cause and f' ({cause})'}; no weight has changed "
            f"since. Lower {rate}, clip with {clip}, check the data, or skip such updates with {skip}{advice}"
        )

    def with_cause(self, cause: str) -> TrainingDiverged:
        """Return the same error with what is first not finite."""
        return TrainingDiverged(self.params, self.epoch, self.first, self.last, self.updates, cause)


def cause_in(model: TrainingModel, batches: OpenBatches, begin: int, first: int, last: int, training: bool) -> str:
    """Compute batches again, and describe the first value that is not finite.

    Args:
        model: with the weights that the batches were computed with.
        batches: opens a stream of batches.
        begin: number of its first one.
        first: the first one to look at.
        last: the last one.
        training: compute them as in the training.
    """
    try:
        with batches as opened:
            for number, (batch, _) in enumerate(opened, begin):
                if number > last:
                    break
                found = first_not_finite(model, batch, training) if number >= first else None
                if found is not None:
                    return found if first == last else f"batch {number}, {found}"
    # The search must not hide what it was started for, whatever the layers of the user do outside of a compiled step.
    except Exception as error:  # noqa: BLE001
        return f"its batch could not be computed again: {type(error).__name__}: {error}"
    return "computed again, everything was finite, so random numbers (dropout, noise) play a part"


class NonFiniteValues:
    """Warns of values of an epoch that are not finite, of each name once.

    Args:
        params: of the training.
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self._told: set[str] = set()

    def check(self, epoch: int, values: Logs, find_cause: Callable[[], str]) -> None:
        """Log one warning if values are not finite that were finite in all epochs before.

        Args:
            epoch: number of the epoch.
            values: its values by name.
            find_cause: validates again, and describes what is first not finite.
        """
        names = [name for name in values if not math.isfinite(values[name]) and not name.endswith(EPOCH_MEAN)]
        new = [name for name in names if name not in self._told]
        if not new:
            return
        self._told.update(new)
        is_debugged = self._params.debug_nonfinite
        cause = ""
        if is_debugged and any(name.startswith(VALIDATION_PREFIX) for name in new):
            cause = f" (validation, {find_cause()})"
        texts = ", ".join(f"{name} is {number_text(values[name])}" for name in new)
        debug = flag_of(self._params, self._params.flag_root, "debug_nonfinite")
        advice = "" if is_debugged else f"; {debug} True names the batch and the layer"
        log.warning(
            "epoch %d: %s%s; an epoch whose monitored value is not finite is never the best, and counts as worse%s",
            epoch,
            texts,
            cause,
            advice,
        )
