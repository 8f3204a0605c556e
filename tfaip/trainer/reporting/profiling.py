"""Traces of a few executions of the compiled step, for the profiler's page of TensorBoard."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tfaip.backend.active import backend
from tfaip.params.fields import FieldAdvice
from tfaip.util.logging import logger

log = logger(__name__)

PLUGIN = "tensorboard_plugin_profile"


class Profiler:
    """Trace of the training between two batches, once.

    A trace consists of whole executions of the compiled step (see `trainer.steps_per_execution`):
    it begins with the first one that starts at batch `first` or later, so that compiling the step
    is not in it, and ends with the one that trains batch `last`.

    Args:
        directory: directory of TensorBoard events; the trace is written to `plugins/profile` in it.
        first: first batch, counted from 1 over all epochs that this process trains.
        last: last batch, at least `first`.
        flag: that sets both, for messages.

    Raises:
        FieldAdvice: if the plugin that shows traces is not installed.
    """

    def __init__(self, directory: Path, first: int, last: int, flag: str) -> None:
        if importlib.util.find_spec(PLUGIN) is None:
            raise FieldAdvice(
                "profiling needs a package: pip install tensorboard-plugin-profile, or set {profile} False",
                "profile",
            )
        self._directory = directory
        self._first = first
        self._last = last
        self._flag = flag
        self._done = 0
        self._begin = 0  # first batch of the trace; 0: not begun
        self._is_active = False
        self._step: Any = None

    def before_execution(self) -> None:
        """Begin an execution of the step."""
        if not self._begin and self._done + 1 >= self._first:
            backend.start_profile(self._directory)  # if it fails there is no trace to end
            self._begin, self._is_active = self._done + 1, True
        if self._is_active:
            self._step = backend.profiled_step(self._done)
            self._step.__enter__()

    def after_execution(self, batches: int, wait: Callable[[], object]) -> None:
        """End an execution of the step.

        Args:
            batches: number of batches that it trained.
            wait: returns when the device has finished them; called only if the trace ends here.
        """
        self._done += batches
        if self._is_active:
            self._step.__exit__(None, None, None)
            if self._done >= self._last:
                # The device works asynchronously: its last execution belongs to the trace.
                wait()
                self._stop()

    def close(self) -> None:
        """End the trace, after the training or after an error."""
        if self._is_active:
            self._stop()
        elif self._done and not self._begin:
            log.warning(
                "nothing was profiled: %d batches were trained, and profiling begins at batch %d; change %s",
                self._done,
                self._first,
                self._flag,
            )

    def _stop(self) -> None:
        self._is_active = False
        backend.stop_profile()
        log.info("profiled batches %d to %d: %s", self._begin, self._done, self._directory / "plugins" / "profile")
