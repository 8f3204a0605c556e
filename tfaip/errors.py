"""Errors of the toolkit, where those of Python do not say enough, and exit codes of signals."""

import signal

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a command, and a training after a checkpoint."""

PREEMPTION_SIGNALS = tuple(signal.Signals[name] for name in ("SIGUSR1", "SIGUSR2") if hasattr(signal, name))
"""Signals that a training can be told to end at like that, since schedulers send them before a job's time is over."""

SIGNAL_EXIT_CODES = {number: 128 + number for number in (*STOP_SIGNALS, *PREEMPTION_SIGNALS)}
"""Exit codes of a process that a signal has ended, as shells give them."""


class TfaipError(Exception):
    """Something failed that the user can act on. Commands print it as one line and exit with code 1."""


class UsageError(TfaipError):
    """The user typed or wrote something wrong. Commands print it as one line and exit with code 2."""


def text_with_notes(error: BaseException) -> str:
    """Return the message of an error and its notes."""
    return "; ".join([str(error), *getattr(error, "__notes__", [])])
