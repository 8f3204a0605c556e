"""Log files: written beside the console, and read back as values of epochs."""

import logging
import re
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Self

from tfaip.components.userlogs import console_unless_configured
from tfaip.trainer.run.names import LOG_FILE
from tfaip.util.logging import LIBRARIES, ROOT, ConsoleHandler, log_level, logger
from tfaip.util.reading import RECORDS_BYTES, read_bytes

# Loggers of libraries, whose messages are not the program's.
_OTHERS = frozenset({*LIBRARIES, "asyncio"})

RESULT = re.compile(r"Results of epoch (\d+) (.*)$")


def _log_file(path: str | Path) -> Path:
    """Return the file that a path means: itself, or `train.log` in a directory."""
    path = Path(path)
    return path / LOG_FILE if path.is_dir() or not path.suffix else path


class WriteToLogFile:
    """Context that also writes all messages to a file, those of the program's own loggers included.

    A run that is trained in the block writes the file itself: then the lines before it are added to its own, and
    nothing is written twice. So that the run finds no files of others, a directory that does not exist, or has no
    other file, stays as it is until the run has begun, or until the end of the block.

    Args:
        path: of the file, or of a directory, in which it is `train.log`; the directory is created.
        append: False: a file that exists is replaced.
    """

    def __init__(self, path: str | Path, append: bool = False) -> None:
        self.path = _log_file(path)
        self._append = append
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(console_unless_configured())
            if not self._append:
                self.path.unlink(missing_ok=True)
            file = stack.enter_context(closing(_LogHandler(self.path)))
            for name, handler in ((ROOT, file), (None, _FromProgram())):
                log = logging.getLogger(name)
                log.addHandler(handler)
                stack.callback(log.removeHandler, handler)
            # Loggers of the program log from the level of the toolkit on, unless it has set one.
            root = logging.getLogger()
            if root.level == logging.WARNING:  # the default of Python
                stack.callback(root.setLevel, root.level)
                root.setLevel(log_level())
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()


class _LogHandler(logging.Handler):
    """Handler of the file; while a run writes it, the records go to the handler of the run, or are its own."""

    prints = False

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file: logging.FileHandler | None = None
        self._waiting: list[logging.LogRecord] = []
        self._last: logging.LogRecord | None = None
        if path.parent.is_dir() and any(other != path for other in path.parent.iterdir()):
            self._open()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, or keep it until the file may be written."""
        if record is self._last:  # one of the program's own reaches this handler on two ways
            return
        self._last = record
        run = self._handler_of_run()
        if run is not None:
            for waiting in self._waiting:
                run.handle(waiting)
            self._waiting.clear()
        elif self._file is not None:
            self._file.handle(record)
        else:
            self._waiting.append(record)

    def close(self) -> None:
        """Write the records that are left."""
        if self._waiting:
            self._open()
        if self._file is not None:
            self._file.close()
        super().close()

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._file = logging.FileHandler(self._path, encoding="utf-8", delay=True)
        self._file.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
        for record in self._waiting:
            self._file.handle(record)
        self._waiting.clear()

    def _handler_of_run(self) -> logging.FileHandler | None:
        """Return the handler with which a run writes the same file; None: no run does."""
        for handler in logging.getLogger(ROOT).handlers:
            if isinstance(handler, logging.FileHandler) and Path(handler.baseFilename) == self._path.absolute():
                return handler
        return None


class _FromProgram(logging.Handler):
    """Handler of the root logger that passes records of a program's own loggers on."""

    prints = False

    def emit(self, record: logging.LogRecord) -> None:
        """Pass a record on to the file, and to the console of the toolkit unless its package has one itself."""
        package = record.name.partition(".")[0]
        if package == ROOT or package in _OTHERS:
            return
        has_console = any(isinstance(handler, ConsoleHandler) for handler in logging.getLogger(package).handlers)
        for handler in logging.getLogger(ROOT).handlers:
            if not (has_console and isinstance(handler, ConsoleHandler)):
                handler.handle(record)


class ParseLogFile:
    """Values of the epochs in a log file, from its lines `Results of epoch 0001 ...`.

    Args:
        path: of the file, or of the run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = _log_file(path)

    def epochs(self) -> dict[int, dict[str, float]]:
        """Return the values of each epoch (from 1) by name, as they were logged: rounded to four digits.

        Of several values with one name the last one counts.
        """
        found: dict[int, dict[str, float]] = {}
        for line in read_bytes(self.path, RECORDS_BYTES).decode("utf-8", "replace").splitlines():
            result = RESULT.search(line)
            if result:
                pairs = (pair.rpartition(": ") for pair in result[2].split(" - "))
                found.setdefault(int(result[1]), {}).update((name, float(value)) for name, _, value in pairs)
        if not found:
            logger(__name__).warning("%s has no results of epochs", self.path)
        return found
