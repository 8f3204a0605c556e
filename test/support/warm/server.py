"""A process that has imported the backend and forks a process for each command: `python server.py DESCRIPTOR`.

The import of a backend takes most of the time of a short command. Here it is done once. It runs nothing on the backend
and starts no thread, so the process can be forked. Each fork becomes the process of one command: with its own session,
working directory, environment and streams, it continues as `python -m MODULE ARGUMENTS` does. What is imported already
is not seen until the command imports it (`Hidden`), so the command configures its backend as in any other process.

Requests come over a socket, with the descriptors of stdin, stdout and stderr, and one of a socket for the answers: the
process sends its id, the server sends the exit code at the end. It ends when the socket of requests is closed.

The only threads at that time are those of OpenBLAS, which stops them before a fork and starts them again.
"""

import contextlib
import ctypes
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import os
import runpy
import selectors
import socket
import sys
import types
from dataclasses import dataclass
from typing import NoReturn

PACKAGES = ("keras", "tensorflow", "jax", "jaxlib")
MAX_BYTES = 2**17
READY = b"ready"


@dataclass(frozen=True)
class Request:
    """A command."""

    module: str
    arguments: list[str]
    cwd: str
    env: dict[str, str]


class Hidden(importlib.machinery.SourceFileLoader):
    """Finder and loader of packages that were imported before and are to look as if they were not.

    The first import of a package brings back the same modules, without running them again: those of all packages for
    Keras, which imports the others; for another one those of all but Keras.
    """

    def __init__(self, modules: dict[str, types.ModuleType]) -> None:
        self._modules = modules
        self._specs = {name: modules[name].__spec__ for name in PACKAGES if name in modules}

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        """Return a spec that brings a package back; None if it is not one of these."""
        if name not in PACKAGES or name not in self._modules:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """Return the module that was imported before."""
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Bring back all that is imported with a package."""
        package = module.__name__
        module.__spec__ = self._specs[package]
        for name in list(self._modules):
            if package == "keras" or name.partition(".")[0] != "keras":
                sys.modules[name] = self._modules.pop(name)


def import_hidden() -> Hidden:
    """Import Keras with its backend, and hide the modules of both."""
    # As tfaip does: no collection while hundred thousands of objects are made that stay.
    gc.disable()
    importlib.import_module("keras")
    gc.enable()
    if "tensorflow" in sys.modules and not os.environ.get("TFAIP_TEST_GRAPPLER"):
        # As in the test processes (conftest.py).
        sys.modules["tensorflow"].config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    hidden = {name: module for name, module in sys.modules.items() if name.partition(".")[0] in PACKAGES}
    for name in hidden:
        del sys.modules[name]
    return Hidden(hidden)


def serve(requests: socket.socket) -> Request | None:
    """Fork a process for each request."""
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    answers: dict[int, tuple[int, socket.socket]] = {}
    while True:
        for key, _ in selector.select():
            if key.fileobj is not requests:
                selector.unregister(key.fd)
                pid, answer = answers.pop(key.fd)
                _, status = os.waitpid(pid, 0)
                with answer, contextlib.suppress(BrokenPipeError):  # the test may not wait for it
                    answer.send(str(os.waitstatus_to_exitcode(status)).encode())
                os.close(key.fd)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, MAX_BYTES, 4)
            if not message:
                return None
            *streams, answer_descriptor = descriptors
            answer = socket.socket(fileno=answer_descriptor)
            pid = os.fork()
            if pid == 0:
                requests.close()
                selector.close()
                for descriptor, (_, other) in answers.items():
                    os.close(descriptor)
                    other.close()
                os.setsid()
                take_streams(streams)
                # Only now: the test may send signals to the group.
                with answer:
                    answer.send(str(os.getpid()).encode())
                return Request(**json.loads(message))
            for stream in streams:
                os.close(stream)
            ended = os.pidfd_open(pid)
            answers[ended] = (pid, answer)
            selector.register(ended, selectors.EVENT_READ)


def take_streams(descriptors: list[int]) -> None:
    """Make descriptors stdin, stdout and stderr."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)


def run(request: Request) -> NoReturn:
    """Continue as a Python process that was started with `-m`."""
    os.chdir(request.cwd)
    os.environ.clear()
    os.environ.update(request.env)
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    # Each Python process has its own random numbers. (`random` takes care of itself.)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    faults = os.environ.get("TFAIP_TEST_FAULTS")
    if faults:
        os.fsync = sys.modules["sitecustomize"].fsync
        sys.modules["sitecustomize"].watch(json.loads(faults))
    # In place of the directory of this file.
    sys.path[0] = os.getcwd()
    importlib.invalidate_caches()
    sys.argv[:] = ["-m", *request.arguments]
    sys.orig_argv[:] = [sys.executable, "-m", request.module, *request.arguments]
    sys.modules["__main__"] = types.ModuleType("__main__")
    runpy._run_module_as_main(request.module)
    sys.exit()


def main() -> None:
    """Import the backend, then serve."""
    requests = socket.socket(fileno=int(sys.argv[1]))
    hidden = import_hidden()
    sys.meta_path.insert(0, hidden)
    # The end of a process would take a second to free what it has never used.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(hidden))
    gc.freeze()
    requests.send(READY)
    request = serve(requests)
    if request is not None:
        run(request)


if __name__ == "__main__":
    main()
