"""The training of one trial: a process, and the run that it writes."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tfaip.trainer.run import names
from tfaip.trainer.tools.runs import read_run, trained_epochs
from tfaip.util.files import is_locked
from tfaip.util.text import shorten_text

_SET_SIGNAL_OF_PARENT = 1  # PR_SET_PDEATHSIG of <linux/prctl.h>
_MESSAGE_BYTES = 4096


class TrialProcess:
    """A training that is started, followed and stopped.

    A directory that has a run is continued.

    Args:
        directory: of the run.
        words: command line of `tfaip-train` for it.
        monitor: name of the value to follow; None: the one that tells the best model.
    """

    def __init__(self, directory: Path, words: Sequence[str], monitor: str | None) -> None:
        self.directory = directory
        self._words, self._monitor = words, monitor
        self._process: subprocess.Popen[bytes] | None = None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self._stamp: tuple[int, int] | None = None
        self._seen = 0
        self.is_stopping = False

    def start(self) -> bool:
        """Start the process; False if the one of an earlier sweep has not ended yet."""
        if is_locked(self.directory):
            return False
        has_run = (self.directory / names.PARAMS_FILE).is_file()
        command = ["resume_training", str(self.directory)] if has_run else ["train", *self._words]
        self._process = subprocess.Popen(  # noqa: S603 (the words are of the user)
            [sys.executable, "-P", "-m", f"tfaip.scripts.{command[0]}", *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            # Ctrl-C reaches the sweep alone, which stops its trainings: a second signal would end them at once.
            start_new_session=True,
            preexec_fn=_ending_with_parent(),
        )
        return True

    @property
    def exit_code(self) -> int | None:
        """Exit code of the process; None: it is running."""
        return self._process.poll() if self._process is not None else None

    def stop(self) -> None:
        """Let the training write a checkpoint and end."""
        if not self.is_stopping and self._process is not None:
            self.is_stopping = True
            self._process.send_signal(signal.SIGTERM)

    def wait(self) -> None:
        """Wait until the process has ended."""
        if self._process is not None:
            self._process.wait()

    def new_values(self) -> Iterator[tuple[int, float]]:
        """Yield epoch and value of the epochs since the last call."""
        file = self.directory / names.HISTORY_FILE
        try:
            found = file.stat()
        except OSError:  # no epoch has ended
            return
        stamp = (found.st_mtime_ns, found.st_size)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        run = read_run(self.directory)
        monitor = self._monitor or (run.best.monitor if run.best else None)
        for epoch in trained_epochs(run.history):
            if epoch > self._seen:
                self._seen = epoch
                value = run.history.values(epoch).get(monitor) if monitor is not None else None
                if value is not None:
                    yield epoch, value

    def message(self) -> str:
        """Return the last line that the process has written to stderr, or how it has ended."""
        size = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(size - _MESSAGE_BYTES, 0))
        lines = self._errors.read().decode(errors="replace").split("\n")
        exit_code = self.exit_code or 0
        how = signal.Signals(-exit_code).name if exit_code < 0 else f"exit code {exit_code}"
        last = next((line for line in reversed(lines) if line.strip()), f"it ended with {how}")
        return shorten_text(last.removeprefix("error: "), 300)


def _ending_with_parent() -> Callable[[], None] | None:
    """Return what a new process calls first, so that it is terminated when the sweep is killed."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def prepare() -> None:
        prctl(_SET_SIGNAL_OF_PARENT, signal.SIGTERM)
        if os.getppid() != parent:  # it has ended before
            os._exit(1)

    return prepare
