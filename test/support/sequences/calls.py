"""A function that a stage calls."""

from __future__ import annotations

import time
from pathlib import Path

from tfaip.predict.samplefile import read_samples


def count_samples(directory: Path, file: str) -> None:
    """Write the number of the predicted samples, slowly."""
    samples = list(read_samples(file))
    for number in range(len(samples)):
        time.sleep(0.01)
        (directory / "count.txt").write_text(f"{number + 1}\n")
