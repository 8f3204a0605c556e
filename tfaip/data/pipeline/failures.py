"""Samples that are left out: they are counted, or end the run, as `on_error` says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from tfaip.data.pipeline.batching import Batcher
from tfaip.data.pipeline.definitions import FailedSample, Outcome, Sample, SampleGroup
from tfaip.util.logging import logger

log = logger(__name__)

# In endless data every sample is a different one: the set of all that failed would not stop growing.
REMEMBERED = 10_000

Dropped: TypeAlias = tuple[int, int, int]
"""Numbers of samples that were dropped: invalid, too long, failed."""

SampleId: TypeAlias = tuple[int, ...]
"""Identity of a sample that failed: (index in the generator). Samples after a generating processor
have no index; their identity is (pass, processor, number among the samples that the processor
receives in the pass)."""


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

    def numbers(self) -> Dropped:
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


class FailurePolicy:
    """Policy of failed samples. A sample that fails in every pass is one sample.

    Without a limit to their number the first `REMEMBERED` are logged, the others only counted.

    Args:
        allowed: number of different samples that may fail; None: any number.
        drops: counts every time that a sample is left out.
    """

    def __init__(self, allowed: int | None, drops: DropCounts) -> None:
        self.drops = drops
        self._allowed = allowed
        self._known: set[SampleId] = set()
        self.failed: tuple[SampleId, ...] = ()
        """The samples that failed, if their number is limited."""

    def resume(self, failed: tuple[SampleId, ...]) -> None:
        """Resume at a position before which these samples failed."""
        # What failed after it will come again. Samples that only are logged need no such accuracy.
        if self._allowed is not None:
            self.failed, self._known = failed, set(failed)

    def forget(self) -> None:
        """Forget all samples that failed; the counts stay."""
        self.failed, self._known = (), set()

    def handle(self, failed: FailedSample, sample_id: SampleId) -> None:
        """Count the sample, or raise its error if no more may fail."""
        if sample_id not in self._known and (self._allowed is not None or len(self._known) < REMEMBERED):
            if self._allowed is not None:
                if len(self._known) >= self._allowed:
                    self._raise(failed)
                self.failed = (*self.failed, sample_id)
            self._known.add(sample_id)
            log.warning("left out a sample, number %d so far: %s", len(self._known), _one_line(failed.error))
        self.drops.failed += 1

    def _raise(self, failed: FailedSample) -> None:
        error = failed.error
        if self._allowed:
            error.add_note(f"on_error gives up after {self._allowed} samples that failed before")
        if isinstance(error, StopIteration):
            error = _as_runtime_error(error)
        if failed.trace is None:
            raise error
        log.debug("traceback of the worker:\n%s", failed.trace)
        raise error from WorkerTraceback(failed.trace)


def _as_runtime_error(stop: StopIteration) -> RuntimeError:
    # Raised as it is, it would end the iterators that it passes, or lose its notes in a generator.
    error = RuntimeError("StopIteration: next() found nothing more; give it a default, or catch it")
    for note in getattr(stop, "__notes__", []):
        error.add_note(note)
    error.__cause__ = stop
    return error


def _one_line(error: Exception) -> str:
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])


class SampleFilter:
    """Selects the processed samples that can be batched, and counts the others.

    Args:
        batcher: knows which parts of a sample it needs.
        longest: drop longer samples (`max_element_length`); None: samples are not measured.
        length: returns the length of a processed sample.
        failures: decides about samples that failed.
    """

    def __init__(
        self, batcher: Batcher, longest: int | None, length: Callable[[Sample], int], failures: FailurePolicy
    ) -> None:
        self._needs_inputs = batcher.needs_inputs
        self._needs_targets = batcher.needs_targets
        self._longest = longest
        self._length = length
        self.failures = failures
        self.drops = failures.drops

    def accepts(self, sample: Sample) -> bool:
        """Return True if a valid sample can be batched; otherwise count it. A group keeps those that can."""
        if isinstance(sample, SampleGroup):
            sample.samples = list(filter(self._accepts_of_group, sample.samples))
            return bool(sample.samples)
        lacks_inputs = sample.inputs is None and self._needs_inputs
        if lacks_inputs or (sample.targets is None and self._needs_targets):
            self.drops.invalid += 1
            return False
        if self._longest is not None and self._length(sample) > self._longest:
            self.drops.too_long += 1
            return False
        return True

    def _accepts_of_group(self, sample: Sample) -> bool:
        if sample.is_valid():
            return self.accepts(sample)
        self.drops.invalid += 1
        return False

    def drop(self, outcome: Outcome, index: int) -> None:
        """Count a sample that is invalid or failed; raise its error if no more may fail.

        Args:
            outcome: of the sample.
            index: of the sample in the generator.
        """
        if isinstance(outcome, FailedSample):
            self.failures.handle(outcome, (index,))
        else:
            self.drops.invalid += 1
