"""Ctrl-C and SIGTERM: the first asks the training to stop after the running step, the second ends it at once.

A signal of a scheduler (`device.preemption_signal`) only asks, however often it comes: Slurm sends it to each process
of a job, and the batch script may pass it on.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import FrameType

from tfaip.device.collectives import all_gather
from tfaip.device.devices import Devices
from tfaip.errors import SIGNAL_EXIT_CODES, STOP_SIGNALS, TfaipError


class TrainingInterrupted(TfaipError, SystemExit):
    """End of a training on request, after it has written a checkpoint.

    A script that does not catch it ends with the exit code of the signal and without a traceback.

    Args:
        signal_number: the signal that was received.
    """

    def __init__(self, signal_number: signal.Signals) -> None:
        super().__init__(f"training stopped by {signal_number.name}")
        self.exit_code = self.code = SIGNAL_EXIT_CODES[signal_number]


class StopRequest:
    """Context that turns the first signal into a flag, unless the process ignores it.

    Outside of the main thread it does nothing.

    Args:
        devices: of the training. If there are several processes only `agree` sets `received`: all must stop at the
            same batch.
        preemption: name of a further signal; None: there is none.
    """

    def __init__(self, devices: Devices | None = None, preemption: str | None = None) -> None:
        self.received: signal.Signals | None = None
        """The signal that asks to stop; None: there is none."""
        self._own: signal.Signals | None = None
        self._devices = devices or Devices()
        self._signals = STOP_SIGNALS if preemption is None else (*STOP_SIGNALS, signal.Signals[preemption])
        self._exit = ExitStack()

    @property
    def is_asked(self) -> bool:
        """True if this process has received a signal, also if the others do not know yet."""
        return self._own is not None or self.received is not None

    def agree(self) -> None:
        """Set `received` in all processes if one of them has received a signal."""
        if self._devices.num_processes > 1:
            own = b"" if self._own is None else self._own.name.encode()
            names = [name.decode() for name in all_gather(self._devices, own) if name]
            self.received = signal.Signals[names[0]] if names else None

    def __enter__(self) -> StopRequest:
        self.received = self._own = None
        if threading.current_thread() is threading.main_thread():
            self._exit.callback(_end_at_second_signal())
            for number in self._signals:
                # A process that a shell starts in the background ignores Ctrl-C. A batch script that ignores the signal
                # of the scheduler hands that down too, but the training was told to obey it.
                if number not in STOP_SIGNALS or signal.getsignal(number) is not signal.SIG_IGN:
                    self._exit.callback(signal.signal, number, signal.signal(number, self._handle))
        return self

    def __exit__(self, *error: object) -> None:
        self._exit.close()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._own = self._own or signal.Signals(number)
        if self._devices.num_processes == 1:
            self.received = self._own


def _end_at_second_signal() -> Callable[[], None]:
    """Start a thread that ends the process at the second signal; return a function that ends the thread.

    Python runs a handler only when the main thread has returned from compiled code, which may wait for data that never
    come. Checkpoints are commits and stay valid.
    """
    receiver, sender = socket.socketpair()
    sender.setblocking(False)
    previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)

    def wait() -> None:
        was_asked = False
        while number := receiver.recv(1):
            if number[0] in STOP_SIGNALS:
                if was_asked:
                    os._exit(SIGNAL_EXIT_CODES[signal.Signals(number[0])])
                was_asked = True

    thread = threading.Thread(target=wait, name="signals", daemon=True)
    thread.start()

    def stop() -> None:
        signal.set_wakeup_fd(previous)
        sender.close()
        thread.join()
        receiver.close()

    return stop
