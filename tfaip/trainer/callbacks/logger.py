"""The line per epoch that users and their tools read."""

from __future__ import annotations

from tfaip.util.typing import Logs


def result_line(epoch: int, logs: Logs) -> str:
    """`Results of epoch 0007 loss: 0.1234 - val_loss: 0.2345`, sorted by name; parsed by tools, never change it."""
    values = " - ".join(f"{name}: {value:.4f}" for name, value in sorted(logs.items()))
    return f"Results of epoch {epoch:04d} {values}"
