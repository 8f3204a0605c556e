"""Ctrl-C and SIGTERM: the first asks the training to stop at the next border, the second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from tfaip.errors import TfaipError

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class TrainingInterrupted(TfaipError):
    """The training ended early, on request, after writing a checkpoint.

    Args:
        signal_number: the signal that asked for it.
    """

    def __init__(self, signal_number: signal.Signals) -> None:
        super().__init__(f"training stopped by {signal_number.name}")
        self.exit_code = EXIT_CODES[signal_number]


class StopRequest:
    """Context that turns the first signal into a flag. In a thread other than the main one it does nothing."""

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._handle) for number in EXIT_CODES}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            # The user asked twice: no clean-up, which may be what hangs. Checkpoints are commits and stay valid.
            os._exit(EXIT_CODES[signal.Signals(number)])
        self.received = signal.Signals(number)
