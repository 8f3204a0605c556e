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
        model_s: seconds in the model, the first batch and its compilation included.
        first_batch_s: seconds of the first batch in the model.
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
    def measured_batch(self, size: int, started: float) -> Iterator[None]:
        """Count a batch of `size` samples that runs in the model within the block.

        Args:
            size: number of samples.
            started: `time.perf_counter()` when the run began.
        """
        before = time.perf_counter()
        yield
        now = time.perf_counter()
        if self.batches == 0:
            self.first_batch_s = now - before
        self.samples += size
        self.batches += 1
        self.model_s += now - before
        self.wall_s = now - started

    def to_dict(self) -> dict[str, float]:
        """All numbers by name."""
        return {**asdict(self), "samples_per_s": self.samples_per_s}

    def __str__(self) -> str:
        return (
            f"{self.samples} samples in {self.wall_s:.2f} s ({self.samples_per_s:.0f} per second), "
            f"{self.model_s:.2f} s of them in the model, {self.first_batch_s:.2f} s in its first batch"
        )
