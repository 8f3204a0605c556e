"""How fast a prediction was."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass


@dataclass
class BenchmarkResults:
    """Counts and seconds of a run over data; it grows while the run goes on.

    Args:
        samples: that entered the model.
        batches: of them.
        model_s: seconds spent on the model and waiting for it, the first batch and its compilation included.
        first_batch_s: of these, until the first batch was done.
        wall_s: seconds from the start to the last batch: data, model, and whoever consumed the samples.
    """

    samples: int = 0
    batches: int = 0
    model_s: float = 0.0
    first_batch_s: float = 0.0
    wall_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Throughput over the whole time; 0 before anything was measured."""
        return self.samples / self.wall_s if self.wall_s else 0.0

    @contextmanager
    def in_model(self) -> Iterator[None]:
        """Count the seconds of the block as those of the model."""
        before = time.perf_counter()
        yield
        self.model_s += time.perf_counter() - before

    def count(self, size: int, started: float) -> None:
        """Count a batch of `size` samples that is done; the run began at `started` (`time.perf_counter()`)."""
        if self.batches == 0:
            self.first_batch_s = self.model_s
        self.samples += size
        self.batches += 1
        self.wall_s = time.perf_counter() - started

    def to_dict(self) -> dict[str, float]:
        """All numbers by name."""
        return {**asdict(self), "samples_per_s": self.samples_per_s}

    def __str__(self) -> str:
        return (
            f"{self.samples} samples in {self.wall_s:.2f} s ({self.samples_per_s:.0f} per second), "
            f"{self.model_s:.2f} s of them in the model, {self.first_batch_s:.2f} s until the first batch was done"
        )
