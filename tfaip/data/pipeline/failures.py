"""Samples that are left out: they are counted, or end the run, as `on_error` says."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample, SampleGroup
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.util.classes import is_data_worker
from tfaip.util.logging import logger

if TYPE_CHECKING:  # params modules import this one, without NumPy
    from tfaip.data.pipeline.batching import Batcher

log = logger(__name__)

# In endless data every sample is a different one: the log would not stop growing.
MOST_LOGGED = 10_000


@dataclass(slots=True)
class DropCounts:
    """Numbers of samples that were left out.

    Args:
        invalid: declared invalid, or without the inputs or targets that the mode needs.
        too_long: longer than `max_element_length`.
        failed: could not be read or processed, see `on_error`.
    """

    invalid: int = 0
    too_long: int = 0
    failed: int = 0

    def numbers(self) -> tuple[int, int, int]:
        """Return the three numbers."""
        return self.invalid, self.too_long, self.failed

    @property
    def total(self) -> int:
        """Sum of the three numbers."""
        return sum(self.numbers())

    def __str__(self) -> str:
        return f"{self.invalid} invalid, {self.too_long} too long, {self.failed} failed"


class WorkerTraceback(Exception):  # noqa: N818 (the cause of an error, printed above it)
    """Traceback of an error that happened in a worker process."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")


class SampleFilter:
    """Selects the samples that can be used, and counts the others; some may fail within one pass over the data.

    Args:
        params: say how many may fail, and how long a sample may be.
        drops: counts every time that a sample is left out.
        batcher: knows what it needs of a sample; None: valid samples are not looked at.
        length: returns the length of a processed sample.
    """

    def __init__(
        self,
        params: DataPipelineParams,
        drops: DropCounts,
        batcher: Batcher | None = None,
        length: Callable[[Sample], int] | None = None,
    ) -> None:
        self.drops = drops
        self.failed = 0
        """Samples of the running pass that failed."""
        self._allowed = params.allowed_failures()
        self._logged = 0
        self._needs_inputs = batcher is not None and batcher.needs_inputs
        self._needs_targets = batcher is not None and batcher.needs_targets
        self._failure = None if self._allowed == 0 or batcher is None else batcher.failure
        self._longest = params.max_element_length
        self._length = length

    def keeps(self, outcome: Outcome) -> bool:
        """Return True if a sample is valid; otherwise count it, or raise its error if no more may fail."""
        if isinstance(outcome, FailedSample):
            self.handle(outcome)
        elif outcome._invalid:
            self.drops.invalid += 1
        else:
            return True
        return False

    def accepts(self, outcome: Outcome) -> bool:
        """Return True if a sample is valid and can be batched; otherwise count it. A group keeps those that can."""
        if not self.keeps(outcome):
            return False
        sample: Sample = outcome  # type: ignore[assignment]
        if isinstance(sample, SampleGroup):
            sample.samples = list(filter(self.accepts, sample.samples))
            return bool(sample.samples)
        lacks_inputs = sample.inputs is None and self._needs_inputs
        if lacks_inputs or (sample.targets is None and self._needs_targets):
            self.drops.invalid += 1
            return False
        if self._failure is not None and (failed := self._failure(sample)) is not None:
            self.handle(failed)
            return False
        if self._longest is not None and self._length is not None and self._length(sample) > self._longest:
            self.drops.too_long += 1
            return False
        return True

    def handle(self, failed: FailedSample) -> None:
        """Count a sample, or raise its error if no more may fail."""
        error = failed.error
        if self._allowed is None or self.failed < self._allowed:
            self.failed += 1
            self.drops.failed += 1
            # Most samples that fail do so in every pass.
            if self._logged < self.failed <= MOST_LOGGED:
                self._logged = self.failed
                text = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
                log.warning("left out a sample, number %d of its pass: %s", self.failed, text)
            return
        if self._allowed:
            error.add_note(f"on_error gives up after {self._allowed} samples that failed before in this pass")
        if failed.trace is None:
            raise error
        log.debug("traceback of the worker:\n%s", failed.trace)
        raise error from WorkerTraceback(failed.trace)


def as_failure(error: BaseException) -> BaseException:
    """Return an ordinary error in place of one that ends the process or iterators, and others as they are.

    A KeyboardInterrupt is Ctrl-C only in the main thread of the training process, and then stays one.
    """
    if isinstance(error, KeyboardInterrupt):
        is_raised = is_data_worker() or threading.current_thread() is not threading.main_thread()
    else:
        is_raised = isinstance(error, SystemExit | StopIteration)
    if not is_raised:
        return error
    failure = RuntimeError(f"{type(error).__name__}: {error}: the code of the data must raise an error instead")
    failure.__cause__ = error
    return failure.with_traceback(error.__traceback__)


def raise_noted(error: BaseException, note: str) -> NoReturn:
    """Raise `as_failure(error)` with a note."""
    failure = as_failure(error)
    failure.add_note(note)
    raise failure
