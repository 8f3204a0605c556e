"""What becomes of samples that cannot be used: they are counted, and `on_error` decides whether one ends the run."""

from __future__ import annotations

from dataclasses import dataclass

from tfaip.data.pipeline.blocks import FailedSample
from tfaip.util.logging import logger

log = logger(__name__)


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

    @property
    def total(self) -> int:
        """All of them."""
        return self.invalid + self.too_long + self.failed

    def __str__(self) -> str:
        return f"{self.invalid} invalid, {self.too_long} too long, {self.failed} failed"


class WorkerTraceback(Exception):  # noqa: N818 (the cause of an error, printed above it)
    """The traceback of an error that happened in a worker process."""

    def __init__(self, trace: str) -> None:
        super().__init__(f"\n{trace}")


class FailurePolicy:
    """Raises the error of a failed sample, or counts and logs it.

    Args:
        allowed: how many samples may fail; None: any number.
        drops: counts them.
    """

    def __init__(self, allowed: int | None, drops: DropCounts) -> None:
        self._allowed = allowed
        self._drops = drops

    def handle(self, failed: FailedSample) -> None:
        """Count the sample, or raise its error if no more may fail."""
        if self._allowed is None or self._drops.failed < self._allowed:
            self._drops.failed += 1
            log.warning("left out a sample, number %d so far: %s", self._drops.failed, _one_line(failed.error))
            return
        if self._allowed:
            failed.error.add_note(f"on_error gives up after {self._allowed} samples that failed before")
        if failed.trace is None:
            raise failed.error
        log.error("traceback of the worker:\n%s", failed.trace)
        raise failed.error from WorkerTraceback(failed.trace)


def _one_line(error: Exception) -> str:
    return "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
