"""The best epoch so far, a pure function of the history."""

from __future__ import annotations

from dataclasses import dataclass

from tfaip.errors import UsageError
from tfaip.params.names import listed, nearest
from tfaip.trainer.history import History
from tfaip.trainer.run.names import LAV_NAME, VALIDATION_PREFIX
from tfaip.util.text import number_text

# Mark of an epoch after which the best begins again, see `History.epoch_after`.
BEST = "best"


@dataclass(frozen=True)
class BestModel:
    """Value that decides which model is the best.

    Args:
        mode: "min" or "max".
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
        if has_validation:
            name = f"{VALIDATION_PREFIX}{name}"
        return cls(mode, name, first_epoch)

    def check(self, logged: list[str]) -> None:
        """Raise unless the monitored value is logged.

        Raises:
            UsageError: if it is not; the message names near ones first.
        """
        if self.monitor not in logged:
            near = " or ".join(nearest(self.monitor, logged))
            hint = f"did you mean {near}? Logged values" if near else "logged values"
            raise UsageError(
                f"the best model follows {self.monitor!r} (_best_logging_settings of the model, or best of the "
                f"scenario), which is not logged; {hint}: {listed(logged)}"
            )

    @property
    def follows_lav(self) -> bool:
        """True if a value of LAV is monitored."""
        return LAV_NAME.match(self.monitor) is not None

    def compared_from(self, history: History) -> int:
        """Return the first epoch that is compared: of the stage, or since a resume with which the best began again."""
        return max(self.first_epoch, history.epoch_after(BEST))

    def is_best(self, history: History, epoch: int) -> bool:
        """Return True if `epoch` is the first one with the best value."""
        return self.epoch(history) == epoch

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
        if epoch is None:
            return "none"
        return f"{self.monitor} {number_text(history[epoch].values[self.monitor])} in epoch {epoch}"
