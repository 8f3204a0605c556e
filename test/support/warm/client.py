"""Starts commands in forks of a process that has imported the backend: see `server.py`."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from test.support.leaks import IGNORED_VARIABLES

SERVER = Path(__file__).resolve().parent / "server.py"
START_S = 120.0
# Read whenever they are needed; all others may have been read when the interpreter or the backend was imported.
READ_LATE = frozenset(
    {
        "COLUMNS",
        "NO_COLOR",
        "PYTEST_CURRENT_TEST",
        "PYTHONDONTWRITEBYTECODE",
        "TEST_LOGICAL_DEVICES",
        "TFAIP_LOG_LEVEL",
        "TFAIP_TEST_CLOCK",
        "TFAIP_TEST_DISK",
        "TFAIP_TEST_FAULTS",
        "XDG_STATE_HOME",
    }
)


class WarmProcess:
    """A command that was started by a server, with the methods of `subprocess.Popen[str]` that tests use.

    Args:
        args: of the command, for messages.
        pid: its process.
        answer: the server sends the exit code over it.
        stdout: what the command prints.
        stderr: what it prints there.
    """

    def __init__(self, args: Sequence[str], pid: int, answer: socket.socket, stdout: IO[str], stderr: IO[str]) -> None:
        self.args = args
        self.pid = pid
        self.stdout = stdout
        self.stderr = stderr
        self.returncode: int | None = None
        self._answer = answer
        self._texts = ["", ""]
        self._readers: list[threading.Thread] = []

    def __enter__(self) -> WarmProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.communicate()

    def poll(self) -> int | None:
        """Return the exit code, or None as long as the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, the negative number of the signal that ended the command.

        Raises:
            subprocess.TimeoutExpired: if it runs longer than `timeout` seconds.
        """
        if self.returncode is None:
            self._answer.settimeout(timeout)
            try:
                message = self._answer.recv(100)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._answer.close()
            if not message:
                raise ChildProcessError(f"the server of {self.args} has ended")
            self.returncode = int(message)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Read stdout and stderr to their end and wait; may be called again after a timeout.

        Raises:
            subprocess.TimeoutExpired: if it takes longer than `timeout` seconds.
        """
        end = None if timeout is None else time.monotonic() + timeout
        if not self._readers:
            self._readers = [threading.Thread(target=self._read, args=(number,), daemon=True) for number in (0, 1)]
            for reader in self._readers:
                reader.start()
        for reader in self._readers:
            reader.join(_left(end))
            if reader.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self.wait(_left(end))
        return self._texts[0], self._texts[1]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _read(self, number: int) -> None:
        stream = (self.stdout, self.stderr)[number]
        if not stream.closed:
            with stream:
                self._texts[number] = stream.read()


class WarmServer:
    """A process that forks one for each command.

    Args:
        env: variables that it is started with.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER), str(theirs.fileno())],
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._requests.settimeout(START_S)
        if not self._requests.recv(100):
            self.close()
            raise ChildProcessError(f"the server of commands ended with exit code {self._process.returncode}")
        self._requests.settimeout(None)

    def start(self, module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> WarmProcess:
        """Start `python -m module arguments`."""
        out, stdout = os.pipe()
        err, stderr = os.pipe()
        answer, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {"module": module, "arguments": list(arguments), "cwd": str(cwd), "env": dict(env)}
        with theirs, open(os.devnull) as stdin:
            descriptors = [stdin.fileno(), stdout, stderr, theirs.fileno()]
            socket.send_fds(self._requests, [json.dumps(request).encode()], descriptors)
        for descriptor in (stdout, stderr):
            os.close(descriptor)
        pid = int(answer.recv(100))
        words = [sys.executable, "-m", module, *arguments]
        return WarmProcess(words, pid, answer, os.fdopen(out, encoding="utf-8"), os.fdopen(err, encoding="utf-8"))

    def close(self) -> None:
        """End the server."""
        self._requests.close()
        self._process.wait()


def _left(end: float | None) -> float | None:
    return None if end is None else max(0.0, end - time.monotonic())


_usual: list[dict[str, str]] = []
_servers: dict[int, WarmServer] = {}


def allow_servers(environments: Sequence[Mapping[str, str]]) -> None:
    """Start servers for commands with these environments from now on, each when it is first needed."""
    _usual[:] = [_early(env) for env in environments]


def start_warm(module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> WarmProcess | None:
    """Start `python -m module arguments` in a fork of a server.

    Args:
        module: that is run.
        arguments: its command line.
        cwd: working directory.
        env: all variables of the command.

    Returns:
        the process; None if there is no server with this environment.
    """
    early = _early(env)
    if early not in _usual:
        return None
    number = _usual.index(early)
    if number not in _servers:
        _servers[number] = WarmServer(early)
    return _servers[number].start(module, arguments, cwd, env)


def _early(env: Mapping[str, str]) -> dict[str, str]:
    """The variables that decide if a server can start a command."""
    ignored = READ_LATE | IGNORED_VARIABLES
    early = {name: value for name, value in env.items() if name not in ignored}
    if early.get("KERAS_BACKEND") == "tensorflow":
        early = {name: value for name, value in early.items() if not name.startswith("JAX_")}
    return early


def server_pids() -> list[int]:
    """Return the processes of the servers of this test process."""
    return [server.pid for server in _servers.values()]


@atexit.register
def close_servers() -> None:
    """End all servers."""
    while _servers:
        _servers.popitem()[1].close()
