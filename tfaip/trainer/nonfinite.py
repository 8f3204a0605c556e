"""Messages on losses, gradients and values that are not finite."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from tfaip.data.pipeline.batching import Batch
from tfaip.errors import TfaipError
from tfaip.params.tree import flag_of
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run.names import EPOCH_MEAN
from tfaip.util.logging import logger
from tfaip.util.text import number_text, shorten
from tfaip.util.typing import Logs

log = logger(__name__)

Params = TrainerParams[Any, Any]
OpenBatches = AbstractContextManager[Iterable[tuple[Batch, Any]]]

_SAMPLES_NAMED = 10


class TrainingDiverged(TfaipError):
    """The loss or its gradients are not finite.

    Args:
        params: of the training.
        epoch: number of the epoch, from 1.
        first: first batch of the first update that was not finite, from 1; below that, it is of the epoch before.
        last: its last batch.
        updates: number of such updates in a row.
        operation: the operation of the backend whose result is not finite; "": not known.
        samples: of these batches, in words; "": not known.
    """

    def __init__(
        self, params: Params, epoch: int, first: int, last: int, updates: int, operation: str = "", samples: str = ""
    ) -> None:
        self.params, self.epoch, self.first, self.last, self.updates = params, epoch, first, last, updates
        self.operation = operation
        batches = f"batch {last}" if first == last else f"batches {first} to {last}"
        place = f"{batches} of epoch {epoch}" if first > 0 else f"the last batches of epoch {epoch - 1}"
        if updates > 1:
            place = f"{updates} updates in a row, from {place}"
        names = ("learning_rate.lr", "optimizer.clip_global_norm", "optimizer.skip_nonfinite", "debug_nonfinite")
        rate, clip, skip, debug = (flag_of(params, params.flag_root, name) for name in names)
        advice = "" if params.debug_nonfinite else f"; {debug} True names the operation"
        known = "; ".join(text for text in (operation, samples) if text)
        super().__init__(
            f"the loss or its gradients were not finite in {place}{known and f' ({known})'}; no weight has changed "
            f"since. Lower {rate}, clip with {clip}, check the data, or skip such updates with {skip}{advice}"
        )

    def with_samples(self, samples: str) -> TrainingDiverged:
        """Return the same error with the samples of its batches."""
        return TrainingDiverged(self.params, self.epoch, self.first, self.last, self.updates, self.operation, samples)


def samples_text(batches: OpenBatches, begin: int, first: int, last: int) -> str:
    """Name the samples of some batches whose data are not finite, else all of them, by their `meta`.

    Args:
        batches: opens a stream of batches.
        begin: number of its first one.
        first: the first one to look at.
        last: the last one.
    """
    bad: list[str] = []
    everything: list[str] = []
    try:
        with batches as opened:
            for number, (batch, _) in enumerate(opened, begin):
                if number > last:
                    break
                if number >= first:
                    everything += [shorten(meta) for meta in batch.meta if meta is not None]
                    bad += [_name(row, batch.meta[row]) for row in _not_finite_rows(batch)]
    except Exception:  # noqa: BLE001 (the search must not hide what it was started for)
        log.debug("the batches could not be read again", exc_info=True)
        return ""
    named = bad or everything
    if not named:
        return ""
    shown = ", ".join(named[:_SAMPLES_NAMED])
    more = f" and {len(named) - _SAMPLES_NAMED} more" if len(named) > _SAMPLES_NAMED else ""
    return f"{'not finite in the data of' if bad else 'its samples are'} {shown}{more}"


def _name(row: int, meta: Any) -> str:
    return f"number {row + 1}" if meta is None else shorten(meta)


def _not_finite_rows(batch: Batch) -> list[int]:
    rows: set[int] = set()
    for array in (*batch.inputs.values(), *batch.targets.values()):
        if isinstance(array, np.ndarray) and array.dtype.kind == "f":
            is_bad = ~np.isfinite(array).reshape(len(array), -1).all(axis=1)
            rows.update(np.flatnonzero(is_bad).tolist())
    return sorted(rows)


class NonFiniteValues:
    """Warns of values of an epoch that are not finite, of each name once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def check(self, epoch: int, values: Logs) -> None:
        """Log one warning if values of an epoch are not finite that were finite in all epochs before."""
        names = [name for name in values if not math.isfinite(values[name]) and not name.endswith(EPOCH_MEAN)]
        new = [name for name in names if name not in self._told]
        if not new:
            return
        self._told.update(new)
        log.warning(
            "epoch %d: %s; an epoch whose monitored value is not finite is never the best, and counts as worse",
            epoch,
            ", ".join(f"{name} is {number_text(values[name])}" for name in new),
        )
