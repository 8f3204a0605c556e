"""Errors of the toolkit, where those of Python do not say enough, and exit codes of signals."""

import signal

SIGNAL_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
"""Exit codes of a process that a signal has ended, as shells give them: 128 + number."""


class TfaipError(Exception):
    """Something failed that the user can act on. Commands print it as one line and exit with code 1."""


class UsageError(TfaipError):
    """The user typed or wrote something wrong. Commands print it as one line and exit with code 2."""
