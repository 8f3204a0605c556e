"""Ctrl-C and SIGTERM: the first asks the training to stop at the next border, the second ends it at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType, TracebackType

from tfaip.device.devices import Devices
from tfaip.device.processes import gather
from tfaip.errors import TfaipError

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class TrainingInterrupted(TfaipError, SystemExit):
    """The training ended early, on request, after writing a checkpoint.

    A script that does not catch it ends with the exit code of the signal and without a traceback.

    Args:
        signal_number: the signal that asked for it.
    """

    def __init__(self, signal_number: signal.Signals) -> None:
        super().__init__(f"training stopped by {signal_number.name}")
        self.exit_code = self.code = EXIT_CODES[signal_number]


class StopRequest:
    """Context that turns the first signal into a flag. In a thread other than the main one it does nothing.

    Python runs a signal handler only when the main thread is back from compiled code, which may wait for data that
    never come. So a thread counts the signals, which wake it at once, and ends the process at the second.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        self._own: signal.Signals | None = None
        self._devices = Devices()
        self._exit = ExitStack()

    def shared_by(self, devices: Devices) -> StopRequest:
        """With several processes `received` changes in `agree` alone, so that all of them stop at the same batch."""
        self._devices = devices
        return self

    def agree(self) -> None:
        """What one of the processes received, all have received."""
        if self._devices.num_processes > 1:
            names = [name.decode() for name in gather(self._devices, (self._own.name if self._own else "").encode())]
            first = next(filter(None, names), None)
            self.received = None if first is None else signal.Signals[first]

    def __enter__(self) -> StopRequest:
        self.received = self._own = None
        if threading.current_thread() is threading.main_thread():
            self._exit.callback(_watch_for_second())
            for number in EXIT_CODES:
                self._exit.callback(signal.signal, number, signal.signal(number, self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exit.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._own = self._own or signal.Signals(number)
        if self._devices.num_processes == 1:
            self.received = self._own


def _watch_for_second() -> Callable[[], None]:
    """Start the thread that ends the process at the second signal; returns what ends the thread."""
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)

    def watch() -> None:
        first = True
        while number := receiver.recv(1):
            if number[0] in EXIT_CODES:
                if not first:
                    # No clean-up, which may be what hangs. Checkpoints are commits and stay valid.
                    os._exit(EXIT_CODES[signal.Signals(number[0])])
                first = False

    thread = threading.Thread(target=watch, name="second-signal", daemon=True)
    thread.start()

    def stop() -> None:
        signal.set_wakeup_fd(previous)
        sender.close()
        thread.join()
        receiver.close()

    return stop
