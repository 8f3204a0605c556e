"""The toolkit's logger: its level is `TFAIP_LOG_LEVEL`, a run adds its `train.log`; and the origin of errors."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

from tfaip.errors import TfaipError, UsageError, text_with_notes
from tfaip.util.oldnames import old_names
from tfaip.util.text import shorten_text

if not TYPE_CHECKING:
    __getattr__ = old_names(__name__)

ROOT = "tfaip"
# Attribute of an error: the log file that has its traceback.
LOG_FILE_ATTRIBUTE = "tfaip_log_file"
# Attribute of a record: its text on the console, instead of the message; pass it as `extra`. Empty: it is not printed.
CONSOLE_TEXT = "console_text"
LEVELS = ("debug", "info", "warning", "error", "critical")


def logger(name: str) -> logging.Logger:
    """Return the logger of a module (`__name__`); those outside tfaip become children of `tfaip`.

    If the program configures no logging, its messages and those of all loggers of its package are printed from INFO on.
    """
    package = name.partition(".")[0]
    if package == ROOT:
        return logging.getLogger(name)
    for log in (logging.getLogger(ROOT), logging.getLogger(package)):
        if not log.handlers:
            log.addHandler(_ProgramConsole(log))
        if log.level == logging.NOTSET:
            log.setLevel(log_level())
    return logging.getLogger(f"{ROOT}.{name}")


def log_level() -> int:
    """Return the level named by `TFAIP_LOG_LEVEL` (default info)."""
    name = _level_name()
    if name not in LEVELS:
        raise UsageError(f"TFAIP_LOG_LEVEL is {name!r}, expected one of {', '.join(LEVELS)}")
    return int(getattr(logging, name.upper()))


def is_debug() -> bool:
    """Return True if tracebacks and the start-up lines of the backends should be shown."""
    return _level_name() == "debug"


def _level_name() -> str:
    return os.environ.get("TFAIP_LOG_LEVEL", "info").lower()


def setup_console() -> None:
    """Print the log to stdout, warnings and errors with their level. Safe to call again."""
    root = logging.getLogger(ROOT)
    root.setLevel(log_level())
    root.propagate = False
    if not has_console():
        root.addHandler(ConsoleHandler())


@contextlib.contextmanager
def kept_for_run() -> Iterator[None]:
    """Context that keeps the messages for the log of a run that begins in its block."""
    memory = _Memory()
    logging.getLogger(ROOT).addHandler(memory)
    try:
        yield
    finally:
        logging.getLogger(ROOT).removeHandler(memory)


def has_console() -> bool:
    """Return True if the log is printed, as in commands."""
    return any(type(handler) is ConsoleHandler for handler in logging.getLogger(ROOT).handlers)


def has_console_failed() -> bool:
    """Return True if the log could not be printed, and what stdout still holds is lost."""
    return any(isinstance(one, ConsoleHandler) and one.has_failed for one in logging.getLogger(ROOT).handlers)


@contextlib.contextmanager
def only_warnings() -> Iterator[None]:
    """Context without messages below a warning, in a process whose chief logs the same."""
    root = logging.getLogger(ROOT)
    level = root.level
    root.setLevel(max(logging.WARNING, level))
    try:
        yield
    finally:
        root.setLevel(level)


def log_duration(log: logging.Logger, work: str, seconds: float) -> None:
    """Log `building the model took 3.2 s`, unless it took less than a second."""
    if seconds >= 1.0:
        log.info("%s took %.1f s", work, seconds)


@contextlib.contextmanager
def timed(log: logging.Logger, work: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """Context that logs how long its block took, unless it failed or took less than a second."""
    begin = clock()
    yield
    log_duration(log, work, clock() - begin)


class _ReportingHandler(logging.StreamHandler):
    """Handler that reports a full disk once, instead of by a traceback per line: it does not stop the work."""

    target = "stdout"
    has_failed = False
    """True once it could not write, and has said so: what the stream still holds is lost."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (overrides)
        """Report that nothing can be written, unless the reader has gone (`| head`)."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not isinstance(error, BrokenPipeError) and not self.has_failed:
            with contextlib.suppress(OSError, ValueError):
                print(f"warning: {self.target} cannot be written: {error.strerror}", file=sys.stderr)
        self.has_failed = True


class ConsoleHandler(_ReportingHandler):
    """Handler that prints to the current `sys.stdout`, so that later redirections are followed."""

    def __init__(self) -> None:
        super().__init__(sys.stdout)
        self.setFormatter(_ConsoleFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, CONSOLE_TEXT, None) != "":
            self.stream = sys.stdout
            super().emit(record)


class _ProgramConsole(ConsoleHandler):
    """Handler of a logger that prints unless another handler gets the same records."""

    def __init__(self, log: logging.Logger) -> None:
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        others = [one for one in _printing(self._log) if not isinstance(one, logging.FileHandler)]
        is_handled = self._log.propagate and has_handler_of_program()
        if others == [self] and not is_handled:
            super().emit(record)


def has_handler_of_program() -> bool:
    """Return True if the root logger has a handler, other than the one that TensorFlow's logging library may add."""
    return any(type(handler).__module__.partition(".")[0] != "absl" for handler in _printing(logging.getLogger()))


def _printing(log: logging.Logger) -> list[logging.Handler]:
    """Return the handlers of a logger, without those that only pass records on (`prints = False`)."""
    return [handler for handler in log.handlers if getattr(handler, "prints", True)]


class _ConsoleFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        message = str(getattr(record, CONSOLE_TEXT, None) or super().format(record))
        return message if record.levelno < logging.WARNING else f"{record.levelname.lower()}: {message}"


class _FileFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        return without_styles(super().format(record))


class _RunFile(_ReportingHandler, logging.FileHandler):
    """Log file of a run."""

    def __init__(self, path: Path) -> None:
        logging.FileHandler.__init__(self, path, encoding="utf-8")
        self.target = self.baseFilename
        self.setFormatter(_FileFormatter())


class _Memory(logging.Handler):
    """Keeps records until a file takes them; the module `logging.handlers` takes 6 ms to import."""

    prints = False

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


class RunLog:
    """Context that writes the log to the file of a run, and the error that ends the run.

    Messages before the file is known are kept for it.
    """

    def __init__(self) -> None:
        begun = [handler for handler in logging.getLogger(ROOT).handlers if isinstance(handler, _Memory)]
        self._memory = begun[0] if begun else _Memory()
        self._file: logging.FileHandler | None = None

    def __enter__(self) -> RunLog:
        root = logging.getLogger(ROOT)
        if root.level == logging.NOTSET:
            root.setLevel(log_level())
        root.addHandler(self._memory)
        return self

    def write_to(self, path: Path) -> None:
        """Append all messages since the beginning of the block to `path`."""
        try:
            self._file = _RunFile(path)
        except OSError as error:
            raise TfaipError(f"{shorten_text(str(path), 160)} cannot be written: {error.strerror}") from error
        logging.getLogger(ROOT).addHandler(self._file)
        logging.getLogger(ROOT).removeHandler(self._memory)
        for record in self._memory.records:
            self._file.handle(record)
        self._memory.records.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logging.getLogger(ROOT).removeHandler(self._memory)
        self._memory.close()
        if self._file is not None:
            if error is not None:
                # With its traceback if that helps.
                place = None if is_foreseen(error) else (type(error), error, error.__traceback__)
                text = f"the run ended with {type(error).__name__}: {text_with_notes(error)}"
                self._file.handle(logging.LogRecord(ROOT, logging.ERROR, __file__, 0, text, None, place))
                if place is not None:
                    vars(error)[LOG_FILE_ATTRIBUTE] = self._file.baseFilename
            logging.getLogger(ROOT).removeHandler(self._file)
            # A log that cannot be written must not change how the run ended.
            with contextlib.suppress(OSError):
                self._file.close()


_OURS = Path(__file__).resolve().parents[1]
_INSTALLED = ("site-packages", "dist-packages")
# Installed packages that are never the user's own; an installed scenario may be.
LIBRARIES = frozenset(
    [
        *("_pytest", "absl", "google", "h5py", "jax", "jaxlib", "keras", "ml_dtypes", "numpy", "onnxruntime"),
        *("opt_einsum", "optree", "pluggy", "rich", "safetensors", "scipy", "sklearn", "tensorboard", "tensorflow"),
        *("tf2onnx", "wrapt", "yaml"),
    ]
)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')
_STYLE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class Place(NamedTuple):
    """A line of the user's code.

    Args:
        file: path of the file.
        function: name of the function; None: unknown.
    """

    file: str
    line: int
    function: str | None = None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f" in {self.function}" if self.function else "")


def without_styles(text: str) -> str:
    """Return a text without the codes that colour a terminal."""
    return _STYLE.sub("", text)


def find_place(error: BaseException) -> Place | None:
    """Find the last line of the user's own code that led to an error.

    Errors of the toolkit describe what is wrong; of these only the causes are searched.
    """
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        if isinstance(cause, SyntaxError) and cause.filename and cause.lineno and _is_users(cause.filename):
            return Place(cause.filename, cause.lineno)
        frames = [] if isinstance(cause, TfaipError) else _frames(cause)
        # An installed scenario is beside the libraries.
        for accepts in (_is_users, _is_installed):
            found = [place for place in frames if accepts(place.file)]
            if found:
                return found[-1]
        seen.append(cause)
        cause = cause.__cause__
    return None


def _frames(error: BaseException) -> list[Place]:
    """Return the frames that a message quotes (those of a worker process), then the error's own.

    A frame that only calls the same method of a base class of the toolkit is left out: a `super().__post_init__()` is
    not the reason why a value is refused.
    """
    frames = [Place(file, int(line), function or None) for file, line, function in _FRAME.findall(str(error))]
    for frame in traceback.extract_tb(error.__traceback__):
        frames.append(Place(frame.filename, frame.lineno or 0, frame.name))
    kept = frames[-1:]
    for place, called in zip(reversed(frames[:-1]), reversed(frames), strict=False):
        if place.function != called.function or not Path(called.file).is_relative_to(_OURS):
            kept.insert(0, place)
    return kept


def is_foreseen(error: BaseException) -> bool:
    """Return True if the toolkit raised an error, and not because of one in the user's code."""
    return isinstance(error, TfaipError) and find_place(error) is None


def _is_users(file: str) -> bool:
    path = Path(file)
    if not path.is_file() or set(_INSTALLED) & set(path.parts):
        return False
    path = path.resolve()
    return not any(path.is_relative_to(root) for root in (_OURS, *_standard_directories()))


@cache
def _standard_directories() -> list[Path]:
    """Return the directories of Python's own modules, and of the scripts that start our commands."""
    import sysconfig

    return [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "scripts")]


def _is_installed(file: str) -> bool:
    """Return True for a file of an installed package that is no known library."""
    path = Path(file)
    below = [path.parts[index + 1] for index, part in enumerate(path.parts[:-1]) if part in _INSTALLED]
    return bool(below) and below[-1].removesuffix(".py") not in LIBRARIES and not path.is_relative_to(_OURS)
