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
            help="If the value shall grow: nothing is counted below it; if it shall fall: reaching it stops at once"
        ),
    )
    upper_threshold: float | None = field(
        default=None,
        metadata=pai_meta(
            help="If the value shall grow: reaching it stops at once; if it shall fall: nothing is counted above it"
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
        if lower is not None and upper is not None and not lower < upper:
            raise ValueError(
                f"lower_threshold {lower} is not below upper_threshold {upper}: change --early_stopping.lower_threshold"
            )

    def standing(self, values: Mapping[int, float], mode: str) -> Standing:
        """Whether to stop, a pure function of what was logged.

        A counter is 1 at every new best, wherever it occurs, and grows by 1 in every tested epoch (a multiple of
        `frequency`) without one. It reaches `n_to_go`: stop. A value that is not finite is no improvement.

        Args:
            values: epoch -> value that tells the best model; epochs without one are left out.
            mode: "min" or "max".
        """
        sign = 1.0 if mode == "max" else -1.0
        best, count = -math.inf, 0
        for epoch, value in sorted(values.items()):
            score = sign * value
            if score > best and math.isfinite(score):
                best, count = score, 1
            elif epoch % self.frequency == 0:
                count += 1
            if not self._counts(value, mode):
                count = 0
            if self.n_to_go != -1 and (self._reaches_goal(value, mode) or count >= self.n_to_go):
                return Standing(sign * best if math.isfinite(best) else None, count, epoch)
        return Standing(sign * best if math.isfinite(best) else None, count, None)

    def _reaches_goal(self, value: float, mode: str) -> bool:
        if mode == "max":
            return self.upper_threshold is not None and value >= self.upper_threshold
        return self.lower_threshold is not None and value <= self.lower_threshold

    def _counts(self, value: float, mode: str) -> bool:
        if mode == "max":
            return self.lower_threshold is None or value >= self.lower_threshold
        return self.upper_threshold is None or value <= self.upper_threshold
