"""Common parts of the commands: entry point and signals, usage, shared flags and dry runs.

A command imports what it works with inside its functions: its usage text alone is shown in half the time.
"""

import atexit
import contextlib
import errno
import gc
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from tfaip.backend.environment import has_reading_threads
from tfaip.errors import SIGNAL_EXIT_CODES, TfaipError, UsageError
from tfaip.util.files import write_json
from tfaip.util.logging import (
    LOG_FILE_ATTRIBUTE,
    find_place,
    has_console_failed,
    is_debug,
    kept_for_run,
    setup_console,
    without_styles,
)
from tfaip.util.terminal import print_table
from tfaip.util.text import LINE_LIMIT, shorten_text

Main = Callable[..., int]

# Other handlers stay: a process in the background of a shell ignores Ctrl-C.
_DEFAULT_HANDLERS: dict[signal.Signals, Any] = {
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGINT: signal.default_int_handler,
}
FAILURE, USAGE = 1, 2
# Set by a shell for the command whose line it completes.
COMPLETION = "_ARGCOMPLETE"
_PLAN_LIMIT = 500
_MAX_WIDTH = 40
_FLAG = re.compile(r"(?<!\S)--[a-z_]+\b(?!\.)")

# Lines of the usage texts.
TRUST = "further packages whose classes the stored params may name"
TRUST_CONFIG = "further packages whose classes a config file may name"


def entry_point(
    usage: str, noun: str, flag: str | None = None, choices: Mapping[str, Sequence[str]] | None = None
) -> Callable[[Callable[..., None]], Main]:
    """Turn a function into the entry point of a command: without arguments, which are then those of the process, it
    returns the exit code; with arguments it raises a `SystemExit` if that is not 0.

    The function is called with the argument that decides what flags there are, and with the rest.
    """
    call = usage.partition("\n")[0].removeprefix("usage: ")
    expected = f"expected: {call}; see {call.split()[0]} --help"

    def decorate(work: Callable[..., None]) -> Main:
        def start(argv: Sequence[str]) -> None:
            if COMPLETION in os.environ:
                complete()
            else:
                run(argv)

        def complete() -> None:
            # Before the working directory, from which a scenario may come, is on the search path.
            from tfaip.scripts.common.completion import answer_shell, typed_words

            # The parser of the flags answers the shell. Commands whose flags are in the usage have no such parser.
            if choices is None:
                with contextlib.suppress(Exception):
                    run(typed_words())
            values = choices or {}
            answer_shell((name, "", values.get(name)) for name in _FLAG.findall(usage))

        def run(argv: Sequence[str]) -> None:
            subject: str | list[str]
            if flag is None:
                subject, flags = "", list(argv)
                if flags and not flags[0].startswith("-"):
                    subject = flags.pop(0)
            else:
                subject, flags = take_words(flag, f"a {noun}; {expected}", argv)
            # The usage names all flags of a command whose argument decides about none.
            if subject and (choices is None or not {"-h", "--help"} & set(flags)):
                setup_console()
                with kept_for_run():
                    work(subject, flags)
            elif subject or flags and flags[0] in ("-h", "--help"):
                print(usage)
            elif flags and flag is None:
                raise UsageError(f"which {noun}? it comes first, got {flags[0]}; {expected}")
            else:
                raise UsageError(f"which {noun}? {expected}")

        def main(argv: Sequence[str] | None = None) -> int:
            # A program that calls a command must not go on as if it had worked.
            exit_code = run_command(start, argv)
            if exit_code and argv is not None:
                raise SystemExit(exit_code)
            return exit_code

        return main

    return decorate


def run_command(work: Callable[[Sequence[str]], None], argv: Sequence[str] | None = None) -> int:
    """Run the work of a command."""
    is_own_process = argv is None
    exit_codes: list[int] = []
    if is_own_process:
        atexit.register(_end_process, exit_codes)  # before the libraries: what they register is called first
    _replace_closed_streams()
    if is_own_process and isinstance(sys.stdout, TextIOWrapper):
        with contextlib.suppress(OSError):  # of a stream whose descriptor was replaced by a pipe
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files, as on stderr
    exit_code = _run(work, sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr) if is_own_process else ():
        try:
            stream.flush()
        except OSError:  # Python would try it once more at the end, and exit with 120
            _discard(stream)
    if exit_code:
        from tfaip.backend.distributed import leave_at_once

        leave_at_once(exit_code)
    exit_codes.append(exit_code)
    return exit_code


def _replace_closed_streams() -> None:
    """Discard what is printed to a stream that the process was started without (`>&-`): Python has None for it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the number of the closed one, and so what native code and other processes print.
            stream = open(os.devnull, mode, encoding="utf-8")  # noqa: SIM115 (until the process ends)
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _end_process(exit_codes: Sequence[int]) -> None:
    """End the process without the clean-up of the interpreter if that could last; see `has_reading_threads`."""
    if not (exit_codes and has_reading_threads()):
        return
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader has gone
            stream.flush()
    os._exit(exit_codes[0])


def _run(work: Callable[[Sequence[str]], None], argv: Sequence[str]) -> int:
    received: list[signal.Signals] = []
    with _raising_signals(received):
        try:
            try:
                work(argv)
            finally:
                # The results of a command are lost with stdout; those of a training are in its directory.
                with contextlib.suppress(*([OSError] if has_console_failed() else [])):
                    sys.stdout.flush()
            return 0
        except KeyboardInterrupt:
            received.append(signal.SIGINT)  # if no signal of ours raised it
        except Exception as error:
            # Native code that calls Python may have replaced the KeyboardInterrupt.
            if not received:
                return report_failure(error)
        print(f"{received[0].name}: stopped", file=sys.stderr)
        return SIGNAL_EXIT_CODES[received[0]]


@contextlib.contextmanager
def _raising_signals(received: list[signal.Signals]) -> Iterator[None]:
    """Context in which SIGTERM and SIGINT raise a KeyboardInterrupt, which cleans up.

    The second signal of a kind ends the process at once.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        if frame is not None and any(getattr(c, "__code__", None) is frame.f_code for c in gc.callbacks):
            # JAX has such a callback; Python ignores what it raises.
            threading.Timer(0.01, signal.pthread_kill, [threading.get_ident(), number]).start()
            return
        signal.signal(number, signal.SIG_DFL)
        received.append(signal.Signals(number))
        raise KeyboardInterrupt

    replaced: list[signal.Signals] = []
    if threading.current_thread() is threading.main_thread():
        replaced = [number for number, default in _DEFAULT_HANDLERS.items() if signal.getsignal(number) == default]
    for number in replaced:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, _DEFAULT_HANDLERS[number])


def take_words(flag: str, what: str, flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off a flag that decides what other flags there are."""
    rest: list[str] = []
    for word in flags:
        rest += word.split("=", 1) if word.startswith(f"{flag}=") else [word]
    if flag not in rest:
        return [], rest
    start = rest.index(flag)
    end = start + 1
    while end < len(rest) and not rest[end].startswith("-"):
        end += 1
    if end == start + 1:
        raise UsageError(f"{flag} needs {what}")
    return rest[start + 1 : end], rest[:start] + rest[end:]


def take_trusted(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split off `--trust PKG [PKG ...]`, which may be given several times."""
    trusted: list[str] = []
    words, rest = take_words("--trust", "the name of a package", flags)
    while words:
        trusted += words
        words, rest = take_words("--trust", "the name of a package", rest)
    return trusted, rest


def print_plan(action: str, results: str) -> None:
    """Print the two lines of a dry run."""
    print(shorten_text(f"dry run: would {action}", _PLAN_LIMIT))
    print(shorten_text(f"would write {results}; nothing was written", _PLAN_LIMIT))


def print_results(columns: Mapping[str, Mapping[str, Any]]) -> None:
    """Print results side by side."""
    rows = []
    for name in dict.fromkeys(chain.from_iterable(columns.values())):
        values = [results.get(name, "") for results in columns.values()]
        texts = [f"{one:.6g}" if isinstance(one, float) else shorten_text(str(one), _MAX_WIDTH) for one in values]
        rows.append([name, *texts])
    print_table(["", *columns], rows)


def write_results(path: str | None, content: Mapping[str, Any]) -> None:
    """Write results as JSON (`--out`); nothing is written if there is no path."""
    if path is not None:
        from tfaip.predict.samplefile import to_plain  # imports NumPy, which `--help` does not need

        write_json(Path(path), to_plain(content))


def report_failure(error: Exception) -> int:
    """Print the error that ended a command, and return the exit code."""
    if isinstance(error, BrokenPipeError) and _reader_left():
        return FAILURE
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        error = UsageError(f"the name is too long: {shorten_text(str(error.filename))}")
    # A training that ended on request has already reported it, and has its own exit code.
    if isinstance(error, TfaipError) and hasattr(error, "exit_code"):
        return int(error.exit_code)
    exit_code = USAGE if isinstance(error, UsageError) else FAILURE
    if is_debug():
        traceback.print_exception(error)
    else:
        with contextlib.suppress(OSError):  # the exit code tells more than a stream that is full
            print("\n".join(_error_lines(error, exit_code)), file=sys.stderr)
    return exit_code


def _reader_left() -> bool:
    """Discard further output and return True if the reader of stdout has gone (`| head`)."""
    try:
        # The stream forgets what failed; only another write shows if this pipe broke.
        print(flush=True)
    except BrokenPipeError:
        _discard(sys.stdout)
        return True
    return False


def _discard(stream: TextIO) -> None:
    """Discard what a stream still holds, and all further output to it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def _error_lines(error: Exception, exit_code: int) -> list[str]:
    """Return one line about an error, and a second one if it was raised in the user's own code."""
    place, text = find_place(error), " ".join(message_of(error).split())
    notes = "".join(f"; {note}" for note in getattr(error, "__notes__", []))
    kind, end, further = "", "", []
    if not isinstance(error, TfaipError):
        kind = f"{type(error).__name__}: "
    hint = "TFAIP_LOG_LEVEL=debug shows the traceback"
    if hasattr(error, LOG_FILE_ATTRIBUTE):
        hint = f"the traceback is in {getattr(error, LOG_FILE_ATTRIBUTE)}"
    if place is None and kind:
        end = f" ({hint})"
    elif place is not None and exit_code == USAGE:
        end = f" (in {place})"
    elif place is not None:
        further = [f"  in {place} ({hint})"]
    # Errors of libraries may be pages long, and file names contain any character.
    limit = max(LINE_LIMIT - len(end), LINE_LIMIT // 3)
    return [shorten_text(f"error: {kind}{text}{notes}", limit) + end, *further]


# Keras puts a page around the message of an error in a layer, whose type it keeps: only the text separates them.
_KERAS_CALL = re.compile(r"Exception encountered when calling .*?\x1b\[1m(.*?)\x1b\[0m", re.DOTALL)
_KERAS_SHAPES = re.compile(r"Could not automatically infer the output shape .*? Error encountered:\s+", re.DOTALL)


def message_of(error: BaseException) -> str:
    """Return the text of an error without terminal styles, and without Keras' page around it."""
    text = str(error)
    if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str):
        # Its text is the `repr` of its argument: the page of Keras as one escaped line.
        page = error.args[0]
        text = page if _KERAS_CALL.match(page) else text
    if inner := _KERAS_CALL.match(text):
        text = inner[1]
    return without_styles(_KERAS_SHAPES.sub("", text))
