"""Which epoch is the best one so far: a pure function of the history."""

from __future__ import annotations

from dataclasses import dataclass

from tfaip.errors import UsageError
from tfaip.trainer.history import History
from tfaip.trainer.lognames import LAV_NAME, VALIDATION_PREFIX
from tfaip.util.text import number_text


@dataclass(frozen=True)
class BestModel:
    """What tells the best model.

    Args:
        mode: "min" or "max".
        monitor: name of the logged value.
    """

    mode: str
    monitor: str

    @classmethod
    def of(cls, settings: tuple[str, str], has_validation: bool, logged: list[str]) -> BestModel:
        """What the `_best_logging_settings` of a model ask for.

        Args:
            settings: mode and name.
            has_validation: without validation data the training value is monitored.
            logged: names of the values that the model logs.

        Raises:
            UsageError: the mode or the name is unknown.
        """
        mode, name = settings
        if mode not in ("min", "max"):
            raise UsageError(f"_best_logging_settings of the model gave the mode {mode!r}, expected 'min' or 'max'")
        if LAV_NAME.match(name):
            # Its values are known only when the evaluator has returned its results.
            return cls(mode, name)
        cls(mode, name).check(logged)
        return cls(mode, f"{VALIDATION_PREFIX}{name}" if has_validation else name)

    def check(self, logged: list[str]) -> None:
        """Whether the monitored value is logged.

        Raises:
            UsageError: it is not; names what is.
        """
        if self.monitor not in logged:
            raise UsageError(
                f"_best_logging_settings of the model monitor {self.monitor!r}, which is not logged; logged values: "
                f"{', '.join(sorted(logged))}"
            )

    @property
    def follows_lav(self) -> bool:
        """Whether a value of LAV is monitored."""
        return LAV_NAME.match(self.monitor) is not None

    def is_best(self, history: History, epoch: int) -> bool:
        """Whether `epoch` is the first one with the best value."""
        return history.best_epoch(self.monitor, self.mode) == epoch

    def values(self, history: History) -> dict[int, float]:
        """The monitored value by epoch, where there is one."""
        found = {epoch: history.value(epoch, self.monitor) for epoch in history.epochs}
        return {epoch: value for epoch, value in found.items() if value is not None}

    def describe(self, history: History) -> str:
        """`val_acc 0.9812 in epoch 7`, or that there is no best epoch."""
        epoch = history.best_epoch(self.monitor, self.mode)
        if epoch is None:
            return "none"
        return f"{self.monitor} {number_text(history[epoch].values[self.monitor])} in epoch {epoch}"
