"""Python imports this at start if its directory is on the path, as it is for the commands that tests start.

Faults at exact moments of a real process: `TFAIP_TEST_FAULTS` is a JSON list of `[action, event, pattern, count]`. At
the `count`-th audit event of that name whose arguments match the pattern, the process sends itself the signal `action`,
or does what `act` says. Actions that begin with "worker " are for data workers alone.

Nothing waits for the disk: a killed process loses nothing of what it has written, only a power failure would. Processes
that meet faults, and those of the kill series, sync their files as always.

A quicker start: while Keras is imported, packages that it uses for nothing here, and only if they are installed, are
not found. They take two fifths of the time of its import, which is most of the time of a command.
"""

import os
import sys

fsync = os.fsync
# What the imports of Keras and of TensorFlow (for TensorFlow Lite) try and can do without.
EXTRAS = frozenset({"jax", "matplotlib", "sklearn"})


def act(action: str) -> None:
    """Hang, exit, print, fork a child that soon ends, raise a built-in exception, or send a signal."""
    import builtins
    import signal
    import threading

    if action == "HANG":
        os.write(1, b"HANGING\n")
        threading.Event().wait()
    elif action == "EXIT":
        os._exit(3)
    elif action == "PRINT":
        os.write(1, b"a line that a library prints\n" * 1000)
    elif action == "FORK":
        if os.fork() == 0:
            signal.alarm(1)
            signal.pause()
    elif hasattr(builtins, action):
        raise getattr(builtins, action)("of a test")
    else:
        os.kill(os.getpid(), getattr(signal, action))


def watch(faults: list[tuple[str, str, str, int]]) -> None:
    """Install the audit hook: it sees renames, removals, opened files and what a scenario audits itself."""
    import re

    seen = [0] * len(faults)
    # Data workers are started by `python -c`.
    is_worker = sys.orig_argv[1:2] == ["-c"]
    faults = [(a.removeprefix("worker "), *rest) for a, *rest in faults if is_worker or not a.startswith("worker ")]
    events = {event for _, event, _, _ in faults}

    def hook(event: str, args: tuple[object, ...]) -> None:
        if event not in events:
            return
        text = " ".join(map(str, args))
        for i, (action, name, pattern, count) in enumerate(faults):
            if name == event and re.search(pattern, text):
                seen[i] += 1
                if seen[i] == count:
                    act(action)

    sys.addaudithook(hook)


class ExtrasOfKeras:
    """A finder of modules that refuses packages while `import keras` runs."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Return None, so that the next finder looks for the module.

        Raises:
            ModuleNotFoundError: if it is one of the packages, and Keras is being imported.
        """
        # A command may choose the backend itself, for example that of the run that it resumes.
        is_backend = name == os.environ.get("KERAS_BACKEND")
        if name in self._names and not is_backend and _is_importing("keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _is_importing(name: str) -> bool:
    return getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False)


def skip_fsync() -> None:
    """Let `os.fsync` do nothing."""
    os.fsync = lambda fd: None


if "TFAIP_TEST_FAULTS" in os.environ:
    import json

    watch(json.loads(os.environ["TFAIP_TEST_FAULTS"]))
elif os.environ.get("TFAIP_TEST_START") != "cold":
    skip_fsync()
sys.meta_path.insert(0, ExtrasOfKeras(EXTRAS))
