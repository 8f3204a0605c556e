"""Starts commands in forks of a process that has imported the backend: see `server.py`."""

import atexit
import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from test.support.leaks import IGNORED_VARIABLES

SERVER = Path(__file__).resolve().parent / "server.py"
START_S = 120.0
# Read whenever they are needed; all others may have been read when the interpreter or the backend was imported.
READ_LATE = {
    *("COLUMNS", "NO_COLOR", "PYTEST_CURRENT_TEST", "PYTHONDONTWRITEBYTECODE", "TEST_LOGICAL_DEVICES"),
    *("TFAIP_LOG_LEVEL", "TFAIP_TEST_DISK", "TFAIP_TEST_FAULTS", "XDG_STATE_HOME"),
}


class WarmProcess(subprocess.Popen[str]):
    """A command that was started by a server, which sends its exit code; used as any other process."""

    # What `communicate` and the end of the object read, besides what is given here.
    _child_created = _communication_started = False
    _input = stdin = None
    _sigint_wait_secs = 0.25
    text_mode = True

    def __init__(self, args: Sequence[str], pid: int, answer: socket.socket, stdout: IO[str], stderr: IO[str]) -> None:
        self.args, self.pid, self.stdout, self.stderr = args, pid, stdout, stderr
        self.returncode: int | None = None
        self._answer = answer

    def poll(self) -> int | None:
        """Return the exit code, or None as long as the command runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(timeout=0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, the negative number of the signal that ended the command."""
        if self.returncode is None:
            self._answer.settimeout(None if timeout is None else max(0.0, timeout))
            try:
                message = self._answer.recv(100)
            except (BlockingIOError, TimeoutError):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0) from None
            self._answer.close()
            if not message:
                raise ChildProcessError(f"the server of {self.args} has ended")
            self.returncode = int(message)
        return self.returncode


class WarmServer:
    """A process that forks one for each command."""

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


_usual: list[dict[str, str]] = []
_servers: dict[int, WarmServer] = {}


def allow_servers(environments: Sequence[Mapping[str, str]]) -> None:
    """Start servers for commands with these environments from now on, each when it is first needed."""
    _usual[:] = [_early(env) for env in environments]


def start_warm(module: str, arguments: Sequence[str], cwd: Path, env: Mapping[str, str]) -> WarmProcess | None:
    """Start `python -m module arguments` in a fork of a server."""
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
