"""What every command does around its work: exit codes, one line per error, no start-up chatter."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Sequence

from tfaip.device.cluster import leave_at_once
from tfaip.errors import TfaipError, UsageError
from tfaip.util.logging import is_debug, setup_console
from tfaip.util.text import LINE_LIMIT, shorten, shorten_text

FAILURE, USAGE, INTERRUPTED = 1, 2, 130


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
    try:
        setup_console()
        try:
            work(sys.argv[1:] if argv is None else argv)
        finally:
            sys.stdout.flush()
    except BrokenPipeError as error:
        return FAILURE if _reader_left() else _report(error, FAILURE)
    except KeyboardInterrupt:
        return INTERRUPTED
    except UsageError as error:
        return _report(error, USAGE)
    except TfaipError as error:
        # A training that ended on request has said so already and knows its exit code.
        exit_code = getattr(error, "exit_code", None)
        return exit_code if exit_code is not None else _report(error, FAILURE)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:  # it can only have been typed, wherever it was noticed
            return _report(UsageError(f"the name is too long: {shorten(error.filename)}"), USAGE)
        return _report(error, FAILURE)
    except Exception as error:
        return _report(error, FAILURE)
    return 0


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
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    kind = "" if isinstance(error, TfaipError) else f"{type(error).__name__}: "
    hint = "" if isinstance(error, TfaipError) else " (TFAIP_LOG_LEVEL=debug shows where)"
    # Errors of libraries may be pages long, and names of files hold any character.
    text = shorten_text(f"{kind}{error}{notes}", LINE_LIMIT - len(f"error: {hint}"))
    print(f"error: {text}{hint}", file=sys.stderr)
    return exit_code
