"""Traces of a few executions of the compiled step, for the profiler's page of TensorBoard."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras

from tfaip.errors import UsageError
from tfaip.util.logging import logger

log = logger(__name__)

PLUGIN = "tensorboard_plugin_profile"


class Profiler:
    """Traces the training between two batches, once.

    A trace begins with the first execution of the step that starts at batch `first` or later, and ends with the
    execution that trains batch `last`; an execution is never cut (see `trainer.steps_per_execution`).

    Args:
        directory: of TensorBoard events; the trace goes to `plugins/profile` in it.
        first: batch, counted from 1 over all epochs that this process trains.
        last: likewise, at least `first`.

    Raises:
        UsageError: the plugin that shows traces is not installed.
    """

    def __init__(self, directory: Path, first: int, last: int) -> None:
        if importlib.util.find_spec(PLUGIN) is None:
            raise UsageError(
                "profiling needs tensorboard-plugin-profile, which is not installed: pip install 'tfaip[profile]', or "
                "set --trainer.profile False"
            )
        self._directory = directory
        self._first = first
        self._last = last
        self._done = 0
        self._begin = 0  # the batch that the trace begins with; 0: not begun
        self._is_active = False
        self._step: Any = None

    def before_execution(self) -> None:
        """An execution of the step begins."""
        if not self._begin and self._done + 1 >= self._first:
            self._begin, self._is_active = self._done + 1, True
            _start(self._directory)
        if self._is_active:
            self._step = _step_marker(self._done)
            self._step.__enter__()

    def after_execution(self, batches: int, wait: Callable[[], object]) -> None:
        """An execution ended.

        Args:
            batches: how many it trained.
            wait: returns when the device has finished them; not called unless the trace ends here.
        """
        self._done += batches
        if self._is_active:
            self._step.__exit__(None, None, None)
            if self._done >= self._last:
                wait()
                self._stop()

    def close(self) -> None:
        """The training is over, or ended by an error."""
        if self._is_active:
            self._stop()
        elif not self._begin:
            log.warning(
                "nothing was profiled: %d batches were trained, and profiling begins at batch %d; change "
                "--trainer.profile_steps",
                self._done,
                self._first,
            )

    def _stop(self) -> None:
        self._is_active = False
        _stop()
        log.info("profiled batches %d to %d: %s", self._begin, self._done, self._directory / "plugins" / "profile")


def _start(directory: Path) -> None:
    if keras.backend.backend() == "jax":
        import jax

        jax.profiler.start_trace(directory)
    else:
        import tensorflow as tf

        tf.profiler.experimental.start(str(directory))


def _stop() -> None:
    if keras.backend.backend() == "jax":
        import jax

        jax.profiler.stop_trace()
    else:
        import tensorflow as tf

        tf.profiler.experimental.stop()


def _step_marker(number: int) -> Any:
    """A context whose extent the page shows as one step."""
    if keras.backend.backend() == "jax":
        import jax

        return jax.profiler.StepTraceAnnotation("train", step_num=number)
    import tensorflow as tf

    return tf.profiler.experimental.Trace("train", step_num=number, _r=1)
