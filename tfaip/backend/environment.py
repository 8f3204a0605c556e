"""Choice of the backend, its import without start-up chatter, and the environment variables that libraries read.

Nothing else changes these variables (`tfaip/util/importpath.py` changes `sys.path`).
"""

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import TextIO

from tfaip.errors import UsageError
from tfaip.util.logging import is_debug

# Environment

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"


def set_variables(changes: Mapping[str, str]) -> None:
    """Set environment variables of this process and of those that it starts."""
    os.environ.update(changes)


def set_default(name: str, value: str) -> str:
    """Set an environment variable unless it is set; return its value."""
    return os.environ.setdefault(name, value)


@contextlib.contextmanager
def default_variable(name: str, value: str) -> Iterator[None]:
    """Context in which an environment variable has a value, unless it is set already."""
    if name in os.environ:
        yield
        return
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]


def variables_without_gpu(backend: str) -> dict[str, str]:
    """Return what hides all GPUs from a backend."""
    hidden = {VISIBLE_GPUS: "-1"}
    if backend == "jax":
        # It complains about a hidden GPU that its plugin was installed for, unless it is told not to search.
        hidden["JAX_PLATFORMS"] = "cpu"
    return hidden


def variables_with_gpu(
    backend: str, environ: Mapping[str, str], deterministic: bool, memory: int | None, total_memory: Callable[[], int]
) -> dict[str, str]:
    """Return what tells a backend how to use the GPU."""
    if backend == "tensorflow":
        # The memory is set by a function: `configure_devices`.
        return {"TF_DETERMINISTIC_OPS": "1"} if deterministic else {}
    options = {}
    if memory is None:
        options["XLA_PYTHON_CLIENT_PREALLOCATE"] = environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    else:
        # JAX takes a share, not a size.
        options["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{memory / total_memory():.4f}"
    if deterministic:
        options["XLA_FLAGS"] = f"{environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
    return options


def has_reading_threads() -> bool:
    """Return True if threads of a library may still call Python code when the process ends.

    At the clean-up of the interpreter such a thread of tf.data waits for the interpreter, and TensorFlow waits for the
    thread.
    """
    return "tensorflow" in sys.modules


# Backend

BACKENDS = ("tensorflow", "jax")


def select_backend(default: str = BACKENDS[0]) -> str:
    """Return the name of the backend: `KERAS_BACKEND`, which becomes `default` if it is not set."""
    name = set_default("KERAS_BACKEND", default)
    if name not in BACKENDS:
        raise UsageError(f"KERAS_BACKEND is {name!r}; tfaip runs on {' and '.join(BACKENDS)}: set one of these")
    return name


def compiles_each_shape() -> bool:
    """Return True if the backend compiles a step again for every shape of its arrays."""
    return select_backend() == "jax"


def prefer_backend(name: str | None) -> str:
    """Return `select_backend`, with `name` as the default if it is a backend that is installed."""
    if name in BACKENDS and importlib.util.find_spec(name) is not None:
        return select_backend(name)
    return select_backend()


def import_keras() -> None:
    """Import Keras and its backend quietly; no devices are searched."""
    name = select_backend()
    if "keras" in sys.modules:
        return
    if not is_debug():
        # The C++ log of TensorFlow reads this once, at import.
        set_default("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with quiet_stderr(), _without_collections():
            import keras  # noqa: F401
    except ImportError as error:
        raise UsageError(
            f"the Keras backend {name!r} cannot be imported ({error}); install it, or set KERAS_BACKEND to another one"
        ) from error


def import_backend(configure: Callable[[], None] = lambda: None) -> str:
    """Import Keras and its backend quietly, and search its devices; return the backend's name.

    Args:
        configure: called before the devices are searched, if nothing has used them yet.

    Raises:
        UsageError: if the backend is not one of ours, or is not installed.
    """
    import_keras()
    import keras

    name, imported = select_backend(), keras.config.backend()
    if imported != name:
        raise UsageError(f"Keras was imported on {imported} before tfaip chose {name}: set KERAS_BACKEND={name}")
    with quiet_stderr():
        configure()
        keras.ops.zeros(())  # makes the backend search its devices now, which it reports on stderr too
    return name


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Context of an import, which makes hundred thousands of objects that stay: the garbage collector is off.

    Freezing them for good (`gc.freeze` alone) would save the full collections of a run, each 0.2 to 0.5 s of CPU time
    (TensorFlow 2.21; one in a short training, 3 % of it), but also keep the garbage that the caller had at that moment.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        # All objects become old ones without a search. Else the next collections of the young, of the middle and of
        # the old generation would each search all of them.
        if not gc.get_freeze_count():  # else whoever froze objects wants them to stay so
            gc.freeze()
            gc.unfreeze()
    finally:
        if was_enabled:
            gc.enable()


def quiet_stderr() -> AbstractContextManager[None]:
    """Return a context that holds back what native code writes to stderr; it is shown if the block raises, or in debug.

    TensorFlow logs from C++ while it is imported, before any of its own log settings act.
    """
    return _held_back(sys.stderr)


@contextlib.contextmanager
def quiet_output() -> Iterator[None]:
    """Hold back what native code writes to stderr and to stdout, where the collective operations of JAX report."""
    with _held_back(sys.stderr), _held_back(sys.stdout):
        yield


@contextlib.contextmanager
def _held_back(stream: TextIO) -> Iterator[None]:
    if is_debug():
        yield
        return
    descriptor = 1 if stream is sys.stdout else 2
    stream.flush()
    saved = os.dup(descriptor)
    # Memory, where the system has it: no directory may be writable.
    can_hold = hasattr(os, "memfd_create")
    with open(os.memfd_create("tfaip-held"), "w+b") if can_hold else tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), descriptor)
        try:
            yield
        except BaseException:
            os.dup2(saved, descriptor)
            held.seek(0)
            stream.write(held.read().decode(errors="replace"))
            raise
        finally:
            os.dup2(saved, descriptor)
            os.close(saved)
