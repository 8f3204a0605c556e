"""When a training stops before its last epoch: params and rule together; needs no backend."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tfaip.params import ParamsBase, pai_dataclass, pai_meta


@dataclass(frozen=True)
class Standing:
    """How far a training is from being stopped.

    Args:
        current: the best value so far; None: there is none.
        n: the counter.
        stops_after: the epoch after which to stop; None: go on.
    """

    current: float | None
    n: int
    stops_after: int | None


@pai_dataclass
@dataclass
class EarlyStoppingParams(ParamsBase):
    """Stop when the value that tells the best model no longer improves, or has reached a threshold.

    `mode`, `monitor`, `current` and `n` are no options: the trainer shows there what `standing` gives.
    """

    n_to_go: int = field(
        default=-1,
        metadata=pai_meta(help="Stop after this many tests, the best epoch included, without a new best (-1: off)"),
    )
    frequency: int = field(default=1, metadata=pai_meta(help="Test for stopping in every n-th epoch"))
    lower_threshold: float | None = field(
        default=None,
        metadata=pai_meta(
            help="Mode max: count from the first epoch that reaches it; mode min: stop when it is reached"
        ),
    )
    upper_threshold: float | None = field(
        default=None,
        metadata=pai_meta(
            help="Mode max: stop when it is reached; mode min: count from the first epoch that reaches it"
        ),
    )

    best_model_name: str = field(
        default="best", metadata=pai_meta(help="Directory of the best model, in the output directory")
    )
    mode: str | None = field(default=None, metadata=pai_meta(mode="ignore", help="min or max"))
    monitor: str | None = field(default=None, metadata=pai_meta(mode="ignore", help="Value that tells the best model"))
    current: float | None = field(default=None, metadata=pai_meta(mode="ignore", help="The best value so far"))
    n: int = field(default=0, metadata=pai_meta(mode="ignore", help="Tests since the best value, itself included"))

    def __post_init__(self) -> None:
        if self.n_to_go != -1 and self.n_to_go < 1:
            raise ValueError(
                f"n_to_go is {self.n_to_go}, expected at least 1, or -1 for off: change --early_stopping.n_to_go"
            )
        if self.frequency < 1:
            raise ValueError(f"frequency is {self.frequency}, expected at least 1: change --early_stopping.frequency")
        lower, upper = self.lower_threshold, self.upper_threshold
        for name, threshold in (("lower_threshold", lower), ("upper_threshold", upper)):
            if threshold is not None and not math.isfinite(threshold):
                raise ValueError(f"{name} is {threshold}, expected a finite number: change --early_stopping.{name}")
        if lower is not None and upper is not None and not lower < upper:
            raise ValueError(
                f"lower_threshold {lower} is not below upper_threshold {upper}: change --early_stopping.lower_threshold"
            )

    def standing(self, values: Mapping[int, float], mode: str) -> Standing:
        """Return how far the training is from being stopped, a pure function of what was logged.

        A counter is 1 at every new best, wherever it occurs, and grows by 1 in every tested epoch (a multiple of
        `frequency`) without one. It reaches `n_to_go`: stop. A value that is not finite is no improvement and reaches
        no threshold.

        Mode max: reaching `upper_threshold` stops at once. Until `lower_threshold` is reached for the first time
        nothing is counted; from then on every tested epoch counts, also those below it. Mode min is mirrored.

        Args:
            values: epoch -> value that tells the best model; epochs without one are left out.
            mode: "min" or "max".
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
            if best < start:  # not even the best epoch has reached the threshold
                count = 0
            gives_up = self.n_to_go != -1 and count >= self.n_to_go
            if score >= goal or gives_up:
                return Standing(sign * best if math.isfinite(best) else None, count, epoch)
        return Standing(sign * best if math.isfinite(best) else None, count, None)

    def _thresholds(self, mode: str) -> tuple[float, float]:
        """Scores at which training stops, and at which counting begins; the higher a score, the better."""
        lower, upper = self.lower_threshold, self.upper_threshold
        goal, start = (upper, lower) if mode == "max" else (lower, upper)
        sign = 1.0 if mode == "max" else -1.0
        return math.inf if goal is None else sign * goal, -math.inf if start is None else sign * start
