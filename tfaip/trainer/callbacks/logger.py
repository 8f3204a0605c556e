"""The line per epoch that users and their tools read."""

from __future__ import annotations

from tfaip.util.text import number_text
from tfaip.util.typing import Logs


def result_line(epoch: int, logs: Logs) -> str:
    """`Results of epoch 0007 loss: 0.1234 - lr: 3.1e-05`, sorted by name; parsed by tools, never change it."""
    values = " - ".join(f"{name}: {number_text(value)}" for name, value in sorted(logs.items()))
    return f"Results of epoch {epoch:04d} {values}"
