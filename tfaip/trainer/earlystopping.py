"""Early stopping: params and rule together; needs no backend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import c_float
from dataclasses import dataclass

from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError

# Mark of an epoch after which early stopping counts again, see `History.epoch_after`.
EARLY_STOPPING = "early_stopping"


@dataclass(frozen=True)
class EarlyStoppingStatus:
    """Status of early stopping after some epochs.

    Args:
        current: the best value so far; None: there is none.
        n: tests since the best value, itself included.
        stops_after: the epoch after which to stop; None: the training continues.
    """

    current: float | None = None
    n: int = 0
    stops_after: int | None = None


class EarlyStoppingParams(ParamsBase):
    """Stop when the value that tells the best model no longer improves, or has reached a threshold.

    `mode`, `monitor`, `current` and `n` are not options: the trainer writes the status to its own copy of the params,
    where callbacks can read it.
    """

    n_to_go: int = option(
        -1,
        "Stop after n tests without a new best value, counting the best epoch as one (1: the first; -1: off)",
        low=1,
        also={-1: "off"},
        common=True,
    )
    frequency: int = option(1, "Test for stopping in every n-th epoch", low=1)
    lower_threshold: float | None = option(
        None,
        "Mode max: epochs before the first one that reaches it are not counted; mode min: training stops when "
        "it is reached",
        finite=True,
    )
    upper_threshold: float | None = option(
        None,
        "Mode max: training stops when it is reached; mode min: epochs before the first one that reaches it "
        "are not counted",
        finite=True,
    )

    best_model_name: str = option("best", "Name of the directory of the best model in output_dir")
    mode: str | None = option(None, "min or max", mode="ignore")
    monitor: str | None = option(None, "Value that tells the best model", mode="ignore")
    current: float | None = option(None, "The best value so far", mode="ignore")
    n: int = option(0, "Tests since the best value, itself included", mode="ignore")

    def __post_init__(self) -> None:
        super().__post_init__()
        lower, upper = self.lower_threshold, self.upper_threshold
        if lower is not None and upper is not None and not lower < upper:
            expected = f"a number below upper_threshold ({upper})"
            raise FieldError("lower_threshold", lower, expected, others=["upper_threshold"])

    def status(self, values: Mapping[int, float], mode: str, counted_from: int = 1) -> EarlyStoppingStatus:
        """Return the status of early stopping, a pure function of what was logged.

        A counter is 1 at every new best, wherever it occurs, and grows by 1 in every tested epoch (a multiple of
        `frequency`) without one. It reaches `n_to_go`: stop. A value that is not finite is no improvement and reaches
        no threshold.

        Mode max: reaching `upper_threshold` stops at once. Until `lower_threshold` is reached for the first time
        nothing is counted; from then on every tested epoch counts, also those below it. Mode min is mirrored.

        Args:
            values: epoch -> value that tells the best model; epochs without one are left out.
            mode: "min" or "max".
            counted_from: the first epoch that counts; those before it are compared only.
        """
        goal, start = self._thresholds(mode)
        sign = 1.0 if mode == "max" else -1.0
        best, count = -math.inf, 0
        for epoch, value in sorted(values.items()):
            score = sign * value if math.isfinite(value) else -math.inf
            if score > best:
                best, count = score, 1
            elif epoch % self.frequency == 0:
                count += 1
            if best < start or epoch < counted_from:  # not even the best epoch has reached the threshold
                count = 0
            gives_up = self.n_to_go != -1 and count >= self.n_to_go
            if score >= goal or gives_up:
                return EarlyStoppingStatus(sign * best if math.isfinite(best) else None, count, epoch)
        return EarlyStoppingStatus(sign * best if math.isfinite(best) else None, count, None)

    def _thresholds(self, mode: str) -> tuple[float, float]:
        """Scores at which training stops, and at which counting begins; the higher a score, the better."""
        lower, upper = self.lower_threshold, self.upper_threshold
        goal, start = (upper, lower) if mode == "max" else (lower, upper)
        sign = 1.0 if mode == "max" else -1.0
        goal, start = math.inf if goal is None else sign * goal, -math.inf if start is None else sign * start
        # Metrics are rounded to float32.
        return min(goal, c_float(goal).value), min(start, c_float(start).value)
