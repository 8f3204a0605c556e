"""A function that a stage calls."""

from __future__ import annotations

import time
from pathlib import Path

from tfaip.predict.samplefile import read_samples


def count_samples(directory: Path, stages: dict[str, Path]) -> int:
    """Write the number of the predicted samples, slowly, and return it."""
    samples = list(read_samples(stages["apply"] / "predictions.npz"))
    for number in range(len(samples)):
        time.sleep(0.01)
        (directory / "count.txt").write_text(f"{number + 1}\n")
    return len(samples)
