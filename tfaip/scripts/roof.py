"""What every command does around its work: exit codes, one line per error, no start-up chatter."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

from tfaip.device.cluster import leave_at_once
from tfaip.errors import TfaipError, UsageError
from tfaip.util.logging import LOG_FILE, is_debug, setup_console
from tfaip.util.origin import find_place, message_of
from tfaip.util.text import LINE_LIMIT, shorten, shorten_text

FAILURE, USAGE = 1, 2


def run_command(work: Callable[[Sequence[str]], None], argv: Sequence[str] | None = None) -> int:
    """Run the work of a command.

    Args:
        work: gets the command line arguments.
        argv: these arguments (None: those of the process).

    Returns:
        the exit code: 0, 1 (failure), 2 (usage), 130 (Ctrl-C), 143 (terminated).
    """
    exit_code = _run(work, argv)
    if exit_code:
        leave_at_once(exit_code)
    return exit_code


def _run(work: Callable[[Sequence[str]], None], argv: Sequence[str] | None) -> int:
    received: list[signal.Signals] = []
    with _raised(received):
        try:
            setup_console()
            try:
                work(sys.argv[1:] if argv is None else argv)
            finally:
                sys.stdout.flush()
        except KeyboardInterrupt:
            return _stopped(received[0] if received else signal.SIGINT)
        except Exception as error:
            # Native code that calls Python may have made another error of a signal.
            return _stopped(received[0]) if received else _exit_code_of(error)
    return 0


def _stopped(number: signal.Signals) -> int:
    print(f"{number.name}: stopped", file=sys.stderr)
    return 128 + number


def _exit_code_of(error: Exception) -> int:
    """The exit code of a command that ended with an error, which is printed."""
    if isinstance(error, BrokenPipeError):
        return FAILURE if _reader_left() else _report(error, FAILURE)
    if isinstance(error, UsageError):
        return _report(error, USAGE)
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        name = shorten(str(error.filename))
        return _report(UsageError(f"the name is too long: {name}"), USAGE)
    # A training that ended on request has said so already and knows its exit code.
    exit_code = getattr(error, "exit_code", None) if isinstance(error, TfaipError) else None
    return _report(error, FAILURE) if exit_code is None else exit_code


@contextlib.contextmanager
def _raised(received: list[signal.Signals]) -> Iterator[None]:
    """Context in which SIGTERM and SIGINT raise a KeyboardInterrupt, so that what is half-written is removed.

    The second signal of a kind ends the process at once.

    Args:
        received: gets the first signal.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        received.append(signal.Signals(number))
        raise KeyboardInterrupt

    defaults: dict[signal.Signals, Any] = {signal.SIGTERM: signal.SIG_DFL, signal.SIGINT: signal.default_int_handler}
    if threading.current_thread() is not threading.main_thread():
        defaults = {}
    ours = [number for number, default in defaults.items() if signal.getsignal(number) == default]
    for number in ours:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, defaults[number])


def _reader_left() -> bool:
    """Whether nobody reads what is printed, as after `| head`; then the rest is thrown away without complaint."""
    try:
        # What failed is forgotten by the stream; only another character tells whether it was this pipe that broke.
        print(flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        return True
    return False


def asks_for_usage(argv: Sequence[str], usage: str, missing: str) -> bool:
    """Whether the usage of a command was asked for, which prints it; else the first argument must be there.

    Args:
        argv: command line arguments.
        usage: what to print.
        missing: message if the command line is empty or begins with a flag.

    Raises:
        UsageError: the first argument is missing.
    """
    if argv and argv[0] in ("-h", "--help"):
        print(usage)
        return True
    if not argv or argv[0].startswith("-"):
        raise UsageError(missing)
    return False


def _report(error: Exception, exit_code: int) -> int:
    try:
        debug = is_debug()
    except UsageError:
        debug = False
    if debug:
        traceback.print_exception(error)
        return exit_code
    print("\n".join(_lines(error, exit_code)), file=sys.stderr)
    return exit_code


def _lines(error: Exception, exit_code: int) -> list[str]:
    """Return what is printed of an error: one line, and a second one if the place is in the user's own code."""
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    place, text = find_place(error), " ".join(message_of(error).split())
    kind = "" if isinstance(error, TfaipError) else f"{type(error).__name__}: "
    file = getattr(error, LOG_FILE, None)
    hint = "TFAIP_LOG_LEVEL=debug shows the traceback" if file is None else f"the traceback is in {file}"
    end = ""
    if place is not None and exit_code == USAGE:
        end = f" (in {place})"
    elif place is None and kind:
        end = f" ({hint})"
    # Errors of libraries may be pages long, and names of files hold any character.
    line = shorten_text(f"error: {kind}{text}{notes}", max(LINE_LIMIT - len(end), LINE_LIMIT // 3)) + end
    return [line] if place is None or exit_code == USAGE else [line, f"  in {place} ({hint})"]
