"""Progress of a training, and the checks of the state that a checkpoint stores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tfaip.backend.kerastools import Execution
from tfaip.data.pipeline.position import Position
from tfaip.errors import TfaipError
from tfaip.trainer.earlystopping import EarlyStoppingStatus
from tfaip.trainer.history import History
from tfaip.util.text import shorten, shorten_text

# Types of the parts of a checkpoint, besides its arrays.
_PARTS: Mapping[str, type] = {
    **dict.fromkeys(("epoch", "step", "samples", "best_epoch", "accum_steps", "window_step"), int),
    **dict.fromkeys(("position", "history", "random", "params", "window"), dict),
    "backend": str,
}


@dataclass
class TrainingProgress:
    """Progress of a training, and what it has found out.

    Args:
        epoch: completed epochs.
        step: trained batches of the running epoch; 0 between epochs.
        samples: samples in these batches.
        seconds: duration of the running epoch in earlier processes, and in this one up to the last
            checkpoint.
        position: position in the stream of training samples after these batches.
        window_step: batches of the running epoch before the open window of `log_every_n_updates`.
        window: total and count of each mean at its beginning, by name.
        history: records of the completed epochs.
        early_stopping: status of early stopping after them; a function of the history, so it is not
            stored.
    """

    epoch: int = 0
    step: int = 0
    samples: int = 0
    seconds: float = 0.0
    position: Position = field(default_factory=Position)
    window_step: int = 0
    window: dict[str, list[float]] = field(default_factory=dict)
    history: History = field(default_factory=History)
    early_stopping: EarlyStoppingStatus = field(default_factory=EarlyStoppingStatus)

    def begin_epoch_after(self, epoch: int) -> None:
        """Count `epoch` as completed."""
        self.epoch, self.step, self.samples, self.seconds = epoch, 0, 0, 0.0
        self.window_step, self.window = 0, {}

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form, which is a part of the state of a checkpoint."""
        return {
            "epoch": self.epoch,
            "step": self.step,
            "samples": self.samples,
            "seconds": self.seconds,
            "position": self.position.to_dict(),
            "window_step": self.window_step,
            "window": self.window,
            "history": self.history.to_dict(),
        }

    @classmethod
    def from_dict(cls, state: Mapping[str, Any]) -> TrainingProgress:
        """Return the progress in the state of a checkpoint.

        Raises:
            TfaipError: if it is damaged.
        """
        with damage_named():
            return cls(
                epoch=state["epoch"],
                step=state["step"],
                samples=state["samples"],
                seconds=state["seconds"],
                position=Position.from_dict(state["position"]),
                window_step=state["window_step"],
                window={name: [float(value) for value in ends] for name, ends in state["window"].items()},
                history=History.from_dict(state["history"]),
            )


def require_state(state: Mapping[str, Any]) -> None:
    """Raise unless the state of a checkpoint has all parts, each of its type.

    Raises:
        TfaipError: if one is missing or has another type; the message names it.
    """
    seconds = state.get("seconds")
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not seconds >= 0:
        raise TfaipError(f"the state of the checkpoint has {shorten(seconds)} as seconds: it is damaged")
    for name, kind in _PARTS.items():
        value = state.get(name)
        if type(value) is not kind or (isinstance(value, int) and value < 0):
            raise TfaipError(f"the state of the checkpoint has {shorten(value)} as {name}: it is damaged")
    stored_execution(state)


def stored_execution(state: Mapping[str, Any]) -> Execution:
    """Return how the steps of a run are executed, by the state of a checkpoint.

    Raises:
        TfaipError: if that part of the state is missing or damaged.
    """
    with damage_named():
        return Execution.from_dict(state["execution"])


@contextmanager
def damage_named() -> Iterator[None]:
    """Context that reads a part of a state; what it cannot read is damaged."""
    try:
        yield
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise TfaipError(f"the state of the checkpoint is damaged: {shorten_text(str(error), 150)}") from error
