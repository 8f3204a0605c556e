"""Functions that tests name as `module:function`."""

from __future__ import annotations

from typing import Any

from keras import ops


def falling(update: Any, lr: Any) -> Any:
    """lr / (1 + update)."""
    return lr / (1.0 + ops.cast(update, "float32"))


def returnn(*, network: Any, global_train_step: Any, learning_rate: Any, **kwargs: Any) -> Any:
    """As for RETURNN: it asks the network, and takes whatever else there is."""
    assert set(kwargs) == {"update", "epoch", "lr"}
    return learning_rate * ops.cast(global_train_step + len(network.trainable_weights), "float32")


def half_epochs(epoch: Any) -> Any:
    """The completed epochs."""
    return epoch


def zero() -> float:
    """Nothing moves."""
    return 0.0


def wants_more(update: Any, batch: Any) -> Any:
    """Asks for what there is not."""
    return update + batch


def positional(update: Any, /) -> Any:
    """Cannot be called by name."""
    return update
