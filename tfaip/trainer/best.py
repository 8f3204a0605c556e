"""The best epoch so far, and early stopping: pure functions of the history. No backend is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from ctypes import c_float
from dataclasses import dataclass

from tfaip.errors import UsageError
from tfaip.params import ParamsBase, option
from tfaip.params.fields import FieldError
from tfaip.params.names import did_you_mean
from tfaip.trainer.history import History
from tfaip.trainer.run.names import LAV_NAME, VALIDATION_PREFIX
from tfaip.util.text import number_text

# Mark of an epoch after which the best begins again, see `History.epoch_after`.
BEST = "best"


@dataclass(frozen=True)
class BestModel:
    """Value that decides which model is the best.

    Args:
        monitor: name of the logged value.
        first_epoch: first epoch that is compared, the first one of the stage.
    """

    mode: str
    monitor: str
    first_epoch: int = 1

    @classmethod
    def of(cls, settings: tuple[str, str], has_validation: bool, logged: list[str], first_epoch: int = 1) -> BestModel:
        """Return the value that the `_best_logging_settings` of a model ask for.

        Args:
            settings: mode and name.
            has_validation: monitor the value of the validation (False: of the training).
            logged: names of the values that the model logs.
            first_epoch: first epoch that is compared.

        Raises:
            UsageError: if the mode or the name is unknown.
        """
        mode, name = settings
        if mode not in ("min", "max"):
            raise UsageError(f"_best_logging_settings of the model gave the mode {mode!r}, expected 'min' or 'max'")
        if LAV_NAME.match(name):
            # The names of LAV are known only when the evaluator has returned its results.
            return cls(mode, name, first_epoch)
        cls(mode, name).check(logged)
        return cls(mode, f"{VALIDATION_PREFIX}{name}" if has_validation else name, first_epoch)

    def check(self, logged: list[str]) -> None:
        """Raise unless the monitored value is logged.

        Raises:
            UsageError: if it is not; the message names near ones, or the logged ones.
        """
        if self.monitor not in logged:
            raise UsageError(
                f"the best model follows {self.monitor!r} (_best_logging_settings of the model, or best of the "
                f"scenario), which is not logged{did_you_mean(self.monitor, logged)}"
            )

    @property
    def follows_lav(self) -> bool:
        """True if a value of LAV is monitored."""
        return LAV_NAME.match(self.monitor) is not None

    def compared_from(self, history: History) -> int:
        """Return the first epoch that is compared: of the stage, or since a resume with which the best began again."""
        return max(self.first_epoch, history.epoch_after(BEST))

    def epoch(self, history: History) -> int | None:
        """Return the first epoch with the best value, or None if no value is finite."""
        return history.best_epoch(self.monitor, self.mode, first=self.compared_from(history))

    def values(self, history: History) -> dict[int, float]:
        """Return the monitored value by epoch, where there is one."""
        first = self.compared_from(history)
        return {epoch: value for epoch, value in history.scores(self.monitor).items() if epoch >= first}

    def describe(self, history: History) -> str:
        """Return `val_acc 0.9812 in epoch 7`, or `none`."""
        epoch = self.epoch(history)
        value = history.value(epoch or 0, self.monitor)
        return "none" if value is None else f"{self.monitor} {number_text(value)} in epoch {epoch}"


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
    frequency: int = option(1, "Test n_to_go in every n-th epoch; thresholds stop in any", low=1)
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
    best_model_output_dir: str | None = option(None, "Directory that gets a copy of the best model after the training")
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
            counted_from: the first epoch that `n_to_go` counts; the best value and thresholds are those of all epochs.
        """
        lower, upper = self.lower_threshold, self.upper_threshold
        goal, start, sign = (upper, lower, 1.0) if mode == "max" else (lower, upper, -1.0)
        goal, start = math.inf if goal is None else sign * goal, -math.inf if start is None else sign * start
        # Metrics are rounded to float32.
        goal, start = min(goal, c_float(goal).value), min(start, c_float(start).value)
        best, count, stops_after = -math.inf, 0, None
        for epoch, value in sorted(values.items()):
            score = sign * value if math.isfinite(value) else -math.inf
            if score > best:
                best, count = score, 1
            elif epoch % self.frequency == 0:
                count += 1
            if best < start or epoch < counted_from:  # not even the best epoch has reached the threshold
                count = 0
            if score >= goal or (self.n_to_go != -1 and count >= self.n_to_go):
                stops_after = epoch
                break
        return EarlyStoppingStatus(sign * best if math.isfinite(best) else None, count, stops_after)
