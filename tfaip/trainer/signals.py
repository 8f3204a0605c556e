"""Ctrl-C and SIGTERM: the first asks the training to stop after the running step, the second ends it at once.

A signal of a scheduler (`device.preemption_signal`) only asks, however often it comes: Slurm sends it to each process
of a job, and the batch script may pass it on.

A training that does not come to the end of a step, because a data worker hangs for example, ends after a time.
"""

from __future__ import annotations

import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn

from tfaip.device.collectives import all_gather
from tfaip.device.devices import Devices
from tfaip.errors import SIGNAL_EXIT_CODES, STOP_SIGNALS, TfaipError

# What a socket can wait: 2**31 ms.
_LONGEST_TIMEOUT_S = 2e6


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

    Python runs a signal handler only when the main thread has returned from compiled code, which
    may wait for data that never come. So a thread, which each signal wakes up at once, counts them
    and ends the process at the second, or if the training has not noticed the first one in time.
    """

    def __init__(self) -> None:
        self._received: signal.Signals | None = None
        self._own: signal.Signals | None = None
        self._noticed = threading.Event()
        self._within_s: float | None = None
        self._longest_step_s = 0.0
        self._step_ended: float | None = None
        self._is_writing = False
        self._devices = Devices()
        self._signals: tuple[signal.Signals, ...] = STOP_SIGNALS
        self._exit = ExitStack()

    @property
    def received(self) -> signal.Signals | None:
        """The signal that asks to stop; None: there is none. The code that reads it stops in time."""
        if self._received is not None:
            self._noticed.set()
        return self._received

    def for_devices(
        self, devices: Devices, preemption: str | None = None, within_s: float | None = None
    ) -> StopRequest:
        """Let only `agree` set `received` if there are several processes: all must stop at the same batch.

        Args:
            devices: of the training.
            preemption: name of a further signal; None: there is none.
            within_s: seconds after a signal in which a step must end, or `received` must be read; else the process
                ends at once. If a step has taken longer before, half as long again as that one. None: it waits.
        """
        self._devices = devices
        self._within_s = within_s
        self._signals = STOP_SIGNALS if preemption is None else (*STOP_SIGNALS, signal.Signals[preemption])
        return self

    @property
    def is_asked(self) -> bool:
        """True if this process has received a signal, also if the others do not know yet."""
        if self._own is not None or self._received is not None:
            self._noticed.set()
            return True
        return False

    def begin_steps(self) -> None:
        """Tell that steps follow; the first one does not count, since it may be compiled."""
        self._step_ended = None

    def count_step(self) -> None:
        """Tell that an execution of the step has ended."""
        if self._own is not None:
            self._noticed.set()
        now = time.monotonic()
        if self._step_ended is not None:
            self._longest_step_s = max(self._longest_step_s, now - self._step_ended)
        self._step_ended = now

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Context in which the training writes its results, however long it takes; then it must read `received`."""
        self._is_writing = True
        try:
            yield
        finally:
            if self._own is not None:
                self._noticed.set()
            self._is_writing = False

    def agree(self) -> None:
        """Set `received` in all processes if one of them has received a signal."""
        if self._devices.num_processes > 1:
            own = b"" if self._own is None else self._own.name.encode()
            names = [name.decode() for name in all_gather(self._devices, own) if name]
            self._received = signal.Signals[names[0]] if names else None

    def __enter__(self) -> StopRequest:
        self._received = self._own = None
        self._noticed.clear()
        if threading.current_thread() is threading.main_thread():
            self._exit.callback(self._watch())
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
            self._received = self._own

    def _watch(self) -> Callable[[], None]:
        """Start the thread that ends the process; return a function that ends the thread."""
        receiver, sender = socket.socketpair()
        sender.setblocking(False)
        previous = signal.set_wakeup_fd(sender.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=self._wait_for_signals, args=(receiver,), name="signals", daemon=True)
        thread.start()

        def stop() -> None:
            signal.set_wakeup_fd(previous)
            sender.close()
            thread.join()
            receiver.close()

        return stop

    def _wait_for_signals(self, receiver: socket.socket) -> None:
        first: signal.Signals | None = None  # that counts for the second one
        asked: signal.Signals | None = None
        limit_s = end = math.inf
        while True:
            left = min(max(end - time.monotonic(), 0.01), _LONGEST_TIMEOUT_S)
            receiver.settimeout(None if end == math.inf else left)
            try:
                number = receiver.recv(1)
            except TimeoutError:
                if self._noticed.is_set():
                    end = math.inf
                elif asked is not None and time.monotonic() >= end and not self._is_writing:
                    _end_process(asked, f"no batch ended within {limit_s:g} s")
                continue
            if not number:
                return
            if number[0] not in self._signals:
                continue
            received = signal.Signals(number[0])
            if received in STOP_SIGNALS:
                if first is not None:
                    _end_process(received)
                first = received
            if asked is None and self._within_s is not None:
                limit_s = max(self._within_s, self._longest_step_s * 1.5)
                end = time.monotonic() + limit_s
            asked = asked or received


def _end_process(number: signal.Signals, reason: str | None = None) -> NoReturn:
    """End the process without clean-up, which may be the part that hangs. Checkpoints are commits and stay valid."""
    try:
        if reason is not None:
            print(f"{number.name}: ended at once, since {reason}; the last checkpoint is complete", file=sys.stderr)
            sys.stderr.flush()
    finally:  # the reader of the stream may have gone
        os._exit(SIGNAL_EXIT_CODES[number])
