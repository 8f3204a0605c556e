"""Commands that run in this process: how they ended, and what they left outside of what they were given."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import logging
import os
import shutil
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import IO

MESSAGE_LIMIT = 300
INTERRUPTED = 130
# TensorFlow leaves these in the temporary directory until the process ends.
_OF_TENSORFLOW = "__autograph_generated_file"
Main = Callable[[Sequence[str]], int]


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        rc: its exit code.
        stdout: what it printed.
        stderr: what it printed there.
        escaped: the exception that left it; empty if none did.
    """

    rc: int
    stdout: str
    stderr: str
    escaped: str = ""


def run_here(main: Main, argv: Sequence[str]) -> Ended:
    """Run a command in this process; what Python code prints is captured."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr), _usual_warnings():
        rc, escaped = _call(main, argv)
    return Ended(rc, stdout.getvalue(), stderr.getvalue(), escaped)


def run_whole_here(main: Main, argv: Sequence[str], seconds: int = 60, hang_s: int = 240) -> Ended:
    """As `run_here`, with what native code prints, too, and an end of what would go on for years.

    Args:
        main: of the command.
        argv: its arguments.
        seconds: after these it is interrupted as Ctrl-C does.
        hang_s: after these the process ends with the stacks of all threads: the command hangs.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with (
            _redirected(1, out),
            _redirected(2, err) as terminal,
            _usual_warnings(),
            same_environment(),
            _quiet_tensorflow(),
        ):
            faulthandler.dump_traceback_later(hang_s, exit=True, file=terminal)
            with contextlib.redirect_stdout(_text_on(1)), contextlib.redirect_stderr(_text_on(2)):
                with _interrupted_after(seconds):
                    rc, escaped = _call(main, argv)
                sys.stdout.flush()
                sys.stderr.flush()
            faulthandler.cancel_dump_traceback_later()
        return Ended(rc, _content(out), _content(err), escaped)


def _content(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@contextlib.contextmanager
def _quiet_tensorflow() -> Iterator[None]:
    """Hide that TensorFlow warns of a process that trains again and again, which this one does on purpose."""
    log = logging.getLogger("tensorflow")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


@contextlib.contextmanager
def same_environment() -> Iterator[None]:
    """Undo what a command does to the environment of its process."""
    saved = dict(os.environ)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(saved)


@cache
def _text_on(descriptor: int) -> IO[str]:
    """The same stream each time: a library that keeps it prints to where the descriptor leads then."""
    return open(descriptor, "w", errors="backslashreplace", closefd=False)


def _call(main: Main, argv: Sequence[str]) -> tuple[int, str]:
    try:
        return main(list(argv)), ""
    except SystemExit as end:
        return (end.code if isinstance(end.code, int) else 1), ""
    except KeyboardInterrupt:
        return INTERRUPTED, ""
    except BaseException:
        return -1, traceback.format_exc()


@contextlib.contextmanager
def _usual_warnings() -> Iterator[None]:
    """What a user sees of warnings, as often as they come: all but those for developers."""
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("always")
        for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
            warnings.simplefilter("ignore", category)
        yield


@contextlib.contextmanager
def _redirected(descriptor: int, file: IO[str]) -> Iterator[IO[str]]:
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(descriptor)
    os.dup2(file.fileno(), descriptor)
    try:
        with os.fdopen(os.dup(saved), "w") as terminal:
            yield terminal
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)


@contextlib.contextmanager
def _interrupted_after(seconds: int) -> Iterator[None]:
    def interrupt(number: int, frame: FrameType | None) -> None:
        signal.raise_signal(signal.SIGINT)

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def complaints(ended: Ended, may_fail: bool) -> list[str]:
    """What is wrong with the end of a command.

    Args:
        ended: how it ended.
        may_fail: exit codes 1 and 130 are clear ends, too, and libraries may warn of what is trained.
    """
    if ended.escaped:
        return [f"an exception left the command: {ended.escaped}"]
    found: list[str] = []
    for text in (ended.stdout, ended.stderr):
        if (begin := text.find("Traceback")) >= 0:
            found.append(f"a traceback: {text[begin:]}")
    if ended.rc not in ((0, 1, 2, INTERRUPTED) if may_fail else (0, 2)):
        found.append(f"exit code {ended.rc}")
    stderr = ended.stderr.splitlines()
    if ended.rc == 1 and len(stderr) == 2 and stderr[1].startswith("  in "):
        stderr.pop()  # the place in the code of a user
    errors = [line for line in stderr if line.startswith("error: ")]
    if ended.rc in (1, 2) and (len(errors) != 1 or len(stderr) != 1):
        found.append(f"{len(stderr)} lines on stderr, {len(errors)} of them errors")
    if ended.rc == 0 and stderr and not may_fail:
        found.append("something on stderr, but exit code 0")
    for line in errors:
        if len(line) > MESSAGE_LIMIT:
            found.append(f"a message of {len(line)} characters")
        if not line.isprintable():
            found.append("characters in the message that cannot be printed")
    return found


@dataclass
class Place:
    """A working directory with a home and a temporary directory beside it, all of them watched.

    Args:
        root: everything lies below it.
    """

    root: Path
    before: dict[str, str] = field(default_factory=dict)

    @property
    def work(self) -> Path:
        """The working directory of the commands."""
        return self.root / "outer" / "work"

    def fill(self, store: Callable[[Path], None] | None = None) -> None:
        """Make the directories and the data.

        Args:
            store: writes a run into a directory; the commands find it in `stored/`.
        """
        self.work.mkdir(parents=True)
        for name in ("home", "tmp", "state"):
            (self.root / name).mkdir()
        (self.work / "numbers.txt").write_text("\n".join(f"{n} 1 2 {-n}" for n in range(20)))
        (self.work / "file").write_text("--trainer.epochs 3\n")
        (self.work / "numbers.jsonl").write_text('{"inputs": null}\n')
        if store is not None:
            store(self.root.parent / f"{self.root.name}-original")
            shutil.copytree(self.root.parent / f"{self.root.name}-original", self.work / "stored")
        self.before = self.state()

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Work here: current directory, home, and where temporary files are made."""
        names = {"HOME": "home", "TMPDIR": "tmp", "XDG_STATE_HOME": "state", "XDG_CACHE_HOME": "home"}
        names |= {"KERAS_HOME": "state", "MPLCONFIGDIR": "state"}  # where these libraries keep their settings
        variables = {name: str(self.root / directory) for name, directory in names.items()}
        variables["PYTHONDONTWRITEBYTECODE"] = "1"
        path, writes = list(sys.path), sys.dont_write_bytecode
        tempfile.tempdir, sys.dont_write_bytecode = str(self.root / "tmp"), True
        try:
            with same_environment(), contextlib.chdir(self.work):
                os.environ.update(variables)
                yield
        finally:
            tempfile.tempdir, sys.dont_write_bytecode = None, writes
            sys.path[:] = path

    def state(self) -> dict[str, str]:
        """Every path that is watched, with a digest of its content; the user's state directory is for records."""
        found: dict[str, str] = {}
        for directory, names, files in os.walk(self.root):
            here = Path(directory)
            names[:] = [name for name in names if here / name != self.root / "state"]
            for name in names:
                found[str(here / name)] = "directory"
            for name in files:
                path = here / name
                if not name.startswith(_OF_TENSORFLOW):
                    found[str(path)] = _digest(path)
        return found

    def differences(self, allowed: Sequence[Path]) -> list[str]:
        """What appeared, changed or vanished outside of `allowed`, one line each."""
        after = self.state()
        found = []
        for path in sorted({*self.before, *after}):
            old, new = self.before.get(path), after.get(path)
            if old != new and not any(_covers(Path(target), Path(path)) for target in allowed):
                kind = "appeared" if old is None else "vanished" if new is None else "changed"
                found.append(f"{path} {kind}")
        return found

    def reset(self) -> None:
        """Undo what came, changed or went since `fill`."""
        after = self.state()
        if any(after.get(path) != digest for path, digest in self.before.items()):
            shutil.rmtree(self.work / "stored")
            shutil.copytree(self.root.parent / f"{self.root.name}-original", self.work / "stored")
        for path in sorted(after, reverse=True):
            if path not in self.before and os.path.lexists(path):
                shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "other"


def _covers(target: Path, path: Path) -> bool:
    """True if `path` is the target, something in it, or one of the directories that it is in."""
    absolute = Path(os.path.abspath(target))
    return path == absolute or absolute in path.parents or path in absolute.parents
