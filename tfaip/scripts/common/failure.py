"""Errors that end a command: their exit codes (1 failure, 2 usage), and at most two lines on stderr."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback

from tfaip.errors import TfaipError, UsageError
from tfaip.util import origin
from tfaip.util.logging import LOG_FILE, is_debug
from tfaip.util.text import LINE_LIMIT, shorten, shorten_text

FAILURE, USAGE = 1, 2


def report_failure(error: Exception) -> int:
    """Print the error that ended a command, and return the exit code."""
    if isinstance(error, BrokenPipeError) and _reader_left():
        return FAILURE
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        error = UsageError(f"the name is too long: {shorten(str(error.filename))}")
    if isinstance(error, UsageError):
        return _report(error, USAGE)
    # A training that ended on request has already reported it, and has its own exit code.
    if isinstance(error, TfaipError) and hasattr(error, "exit_code"):
        return int(error.exit_code)
    return _report(error, FAILURE)


def _reader_left() -> bool:
    """Discard further output and return True if the reader of stdout has gone (`| head`)."""
    try:
        # The stream forgets what failed; only another write shows if this pipe broke.
        print(flush=True)
    except BrokenPipeError:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
        return True
    return False


def _report(error: Exception, exit_code: int) -> int:
    try:
        debug = is_debug()
    except UsageError:  # TFAIP_LOG_LEVEL holds an unknown word, which may be the error to report
        debug = False
    if debug:
        traceback.print_exception(error)
    else:
        with contextlib.suppress(OSError):  # the exit code tells more than a stream that is full
            print("\n".join(_error_lines(error, exit_code)), file=sys.stderr)
    return exit_code


def _error_lines(error: Exception, exit_code: int) -> list[str]:
    """Return one line about an error, and a second one if it was raised in the user's own code."""
    place, text = origin.find_place(error), " ".join(origin.message_of(error).split())
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    kind, end, further = "", "", []
    if not isinstance(error, TfaipError):
        kind = f"{type(error).__name__}: "
    hint = "TFAIP_LOG_LEVEL=debug shows the traceback"
    if hasattr(error, LOG_FILE):
        hint = f"the traceback is in {getattr(error, LOG_FILE)}"
    if place is None and kind:
        end = f" ({hint})"
    elif place is not None and exit_code == USAGE:
        end = f" (in {place})"
    elif place is not None:
        further = [f"  in {place} ({hint})"]
    # Errors of libraries may be pages long, and file names contain any character.
    limit = max(LINE_LIMIT - len(end), LINE_LIMIT // 3)
    return [shorten_text(f"error: {kind}{text}{notes}", limit) + end, *further]
