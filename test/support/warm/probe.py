"""Prints what a process knows of its start, then ends as it is told: `python -m test.support.warm.probe END ...`."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import threading
from typing import Any

BACKENDS = ("jax", "keras", "tensorflow")


def imported() -> list[str]:
    """The backends that are imported."""
    return [name for name in BACKENDS if name in sys.modules]


def state() -> dict[str, Any]:
    """What is the same in each process that is started in the same way."""
    main = sys.modules["__main__"]
    return {
        "argv": sys.argv,
        "orig_argv": sys.orig_argv,
        "path": sys.path,
        "main": [main.__name__, main.__file__, main.__spec__.name if main.__spec__ else None],
        "cwd": os.getcwd(),
        "environ": dict(os.environ),
        "writes bytecode": not sys.dont_write_bytecode,
        "leads session and group": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "handlers": {number: str(signal.getsignal(number)) for number in sorted(signal.valid_signals())},
        "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "descriptors": sorted(int(name) for name in os.listdir("/proc/self/fd") if is_open(int(name))),
        "threads": [thread.name for thread in threading.enumerate()],
        "streams": [
            [stream.encoding, stream.errors, stream.line_buffering, stream.isatty()]
            for stream in (sys.stdin, sys.stdout, sys.stderr)
        ],
        "stdin": sys.stdin.read(),
        "collects": gc.isenabled(),
        "imported": imported(),
    }


def is_open(descriptor: int) -> bool:
    """True unless it was open only while the descriptors were listed."""
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def main(end: str) -> None:
    """Print, and end."""
    print(json.dumps(state()))
    print("oh", file=sys.stderr)
    if end == "wait":
        sys.stdout.flush()
        signal.pause()
    if end == "keras":
        from tfaip.backend.environment import import_backend

        configured: list[list[str]] = []
        print(import_backend(lambda: configured.append(imported())), *configured)
        import keras

        print(float(keras.ops.sum(keras.ops.ones(3))), keras.__name__, keras.__spec__.origin == keras.__file__)
        print(*imported())
    raise SystemExit(7)


if __name__ == "__main__":
    main(sys.argv[1])
