"""Private names of callbacks."""

from __future__ import annotations

from typing import Any

import keras


class SynchronousCallbacks(keras.callbacks.CallbackList):
    """Callbacks that are all called by the thread of the training.

    Keras calls `on_test_batch_end` from a pool of threads, where calls overtake each other and outlive an interruption.
    A callback can ask for that (`async_safe`), but not for the opposite.
    """

    def _configure_async_dispatch(self, callbacks: Any) -> None:
        """Leave out the pool of threads."""

    def release_model(self) -> None:
        """Let the callbacks forget their model, which would live as long as they do.

        The public `set_model(None)` is no call that callbacks of users must expect.
        """
        for callback in self.callbacks:
            callback._model = None
