"""Which numeric backend Keras runs on, and how it is imported without its start-up chatter."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import TextIO

from tfaip.errors import UsageError
from tfaip.util.logging import is_debug

BACKENDS = ("tensorflow", "jax")


def select_backend() -> str:
    """Name of the backend: `KERAS_BACKEND` if set, else tensorflow, which is then written into the environment.

    Raises:
        UsageError: another backend is asked for.
    """
    name = os.environ.setdefault("KERAS_BACKEND", BACKENDS[0])
    if name not in BACKENDS:
        raise UsageError(f"KERAS_BACKEND is {name!r}; tfaip runs on {' and '.join(BACKENDS)}: set one of these")
    return name


def compiles_each_shape() -> bool:
    """Whether the backend compiles a step anew for every shape of its arrays."""
    return select_backend() == "jax"


def prefer_backend(name: str | None) -> str:
    """As `select_backend`, but `KERAS_BACKEND` becomes `name` if it is not set and `name` is installed."""
    if name in BACKENDS and importlib.util.find_spec(name) is not None:
        os.environ.setdefault("KERAS_BACKEND", name)
    return select_backend()


def import_backend(configure: Callable[[], None] = lambda: None) -> str:
    """Import Keras and its backend quietly; returns the backend's name.

    Args:
        configure: called when the backend is imported, before it looks for its devices; not if it has done so already.

    Raises:
        UsageError: the backend is not one of ours, or is not installed.
    """
    name = select_backend()
    if "keras" in sys.modules:
        return _check_imported(name)
    if not is_debug():
        # The C++ log of TensorFlow reads this once, at import.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        with quiet_stderr(), _without_collections():
            import keras

            configure()
            # Makes the backend look for its devices now, which it reports on stderr too.
            keras.ops.zeros(())
    except ImportError as error:
        raise UsageError(
            f"the Keras backend {name!r} cannot be imported ({error}); install it, or set KERAS_BACKEND to another one"
        ) from error
    return _check_imported(name)


def _check_imported(name: str) -> str:
    from keras.config import backend

    if backend() != name:
        raise UsageError(f"Keras was imported on {backend()} before tfaip chose {name}: set KERAS_BACKEND={name}")
    return name


@contextlib.contextmanager
def _without_collections() -> Iterator[None]:
    """Do not look for garbage while the block makes objects that stay, nor among these ever after.

    Each search among the hundred thousands of objects of a backend takes as long as many steps of a small model, and
    a tenth of the import is spent on them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Hold back what native code writes to the file descriptor of stderr; shown if the block raises, or in debug.

    TensorFlow logs from C++ while it is imported, before any of its own log settings act.
    """
    with _held_back(sys.stderr):
        yield


@contextlib.contextmanager
def quiet_output() -> Iterator[None]:
    """The same for stdout too, where the collective operations of JAX greet each other."""
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
    with tempfile.TemporaryFile() as held:
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
