"""What becomes of samples that cannot be used: they are counted, and `on_error` decides whether one ends the run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tfaip.data.pipeline.blocks import FailedSample
from tfaip.util.logging import logger

log = logger(__name__)

# On endless data every sample is another one: of more than these, samples that fail are no longer told apart.
REMEMBERED = 10_000

Dropped: TypeAlias = tuple[int, int, int]
"""Numbers of samples that were dropped: invalid, too long, failed."""

Place: TypeAlias = tuple[int, ...]
"""What a sample that failed is known by: (index in the generator). Behind a generating processor samples have none;
there it is (pass, processor, number among the samples that the processor gets in the pass)."""


@dataclass(slots=True)
class DropCounts:
    """Samples that did not make it into the stream.

    Args:
        invalid: declared invalid, or without the inputs or targets that the mode needs.
        too_long: longer than `max_element_length`.
        failed: could not be read or processed, see `on_error`.
    """

    invalid: int = 0
    too_long: int = 0
    failed: int = 0

    def numbers(self) -> Dropped:
        """The three numbers."""
        return self.invalid, self.too_long, self.failed

    @property
    def total(self) -> int:
        """All of them."""
        return self.invalid + self.too_long + self.failed

    def __str__(self) -> str:
        return f"{self.invalid} invalid, {self.too_long} too long, {self.failed} failed"


class DropTally:
    """Numbers of samples that were dropped before the current place of a stream, since the training began.

    A pipeline counts what it meets, also in passes that are repeated to get to a place, and begins at 0 in every
    process. The tally takes from it only what comes after the place where it was set.

    Args:
        drops: counted by the pipeline.
        before: what was dropped before the current place.
    """

    def __init__(self, drops: DropCounts, before: Dropped) -> None:
        self._drops = drops
        self.set(before)

    def set(self, before: Dropped) -> None:
        """Set what was dropped before the current place."""
        self._before, self._counted = before, self._drops.numbers()

    def numbers(self) -> Dropped:
        """Return the numbers of samples that were dropped before the current place."""
        now = zip(self._before, self._drops.numbers(), self._counted, strict=True)
        invalid, too_long, failed = (before + drops - counted for before, drops, counted in now)
        return invalid, too_long, failed


class WorkerTraceback(Exception):  # noqa: N818 (the cause of an error, printed above it)
    """The traceback of an error that happened in a worker process."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")


class FailurePolicy:
    """Raises the error of a failed sample, or counts and logs it. One that fails in every pass is one sample.

    Without a limit to their number the first `REMEMBERED` are logged, the others only counted.

    Args:
        allowed: how many different samples may fail; None: any number.
        drops: counts each time that one is left out.
    """

    def __init__(self, allowed: int | None, drops: DropCounts) -> None:
        self._allowed = allowed
        self._drops = drops
        self._known: set[Place] = set()
        self.failed: tuple[Place, ...] = ()
        """The samples that failed, if their number counts."""

    def go_on_from(self, failed: tuple[Place, ...]) -> None:
        """Go on at a place of the stream in front of which these samples failed; what failed behind it comes again."""
        if self._allowed is not None:
            self.failed, self._known = failed, set(failed)

    def handle(self, failed: FailedSample, place: Place) -> None:
        """Count the sample, or raise its error if no more may fail."""
        if place not in self._known and (self._allowed is not None or len(self._known) < REMEMBERED):
            if self._allowed is not None:
                self._give_up_if_too_many(failed)
                self.failed = (*self.failed, place)
            self._known.add(place)
            log.warning("left out a sample, number %d so far: %s", len(self._known), _one_line(failed.error))
        self._drops.failed += 1

    def _give_up_if_too_many(self, failed: FailedSample) -> None:
        if self._allowed is None or len(self._known) < self._allowed:
            return
        if self._allowed:
            failed.error.add_note(f"on_error gives up after {self._allowed} samples that failed before")
        error = _raisable(failed.error)
        if failed.trace is None:
            raise error
        log.debug("traceback of the worker:\n%s", failed.trace)
        raise error from WorkerTraceback(failed.trace)


def _raisable(error: Exception) -> Exception:
    """On its way a StopIteration would end iterators, or become an error without notes."""
    if not isinstance(error, StopIteration):
        return error
    named = RuntimeError("StopIteration: next() found nothing more; give it a default, or catch it")
    for note in getattr(error, "__notes__", []):
        named.add_note(note)
    named.__cause__ = error
    return named


def _one_line(error: Exception) -> str:
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
