"""Values that layers send to TensorBoard (`add_tensorboard`)."""

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

from tfaip.util.typing import Tensor


@dataclass(frozen=True)
class TensorboardWriter:
    """Recipe for drawing one value of a layer.

    Args:
        func: `func(name, value, step)` gets the value of one validation batch as a NumPy array and returns what to
            write: an image (`[height, width, channels]`, or with a leading batch axis; 1, 3 or 4 channels; uint8, or
            float in [0, 1]), a scalar, a `PrecisionRecallCurve`, or a dict of these (its keys are appended to the
            name).
        dtype: dtype that the value is converted to first.
        name: tag in TensorBoard.
    """

    func: Callable[[str, np.ndarray, int], Any]
    dtype: str = "float32"
    name: str = "value"


@dataclass(frozen=True)
class CollectedValue:
    """A value that passed `add_tensorboard` while values were collected."""

    writer: TensorboardWriter
    value: np.ndarray


_collected: ContextVar[list[CollectedValue] | None] = ContextVar("tfaip_collected_tensorboard_values", default=None)


@contextlib.contextmanager
def collect_tensorboard_values() -> Iterator[list[CollectedValue]]:
    """Collect the values of all `add_tensorboard` calls of an eager forward pass inside the block.

    There is no way out of a compiled step that works on every backend, so the trainer runs one extra eager pass on
    a validation batch at the end of an epoch; everywhere else `add_tensorboard` costs nothing.
    """
    values: list[CollectedValue] = []
    token = _collected.set(values)
    try:
        yield values
    finally:
        _collected.reset(token)


def record_tensorboard_value(writer: TensorboardWriter, value: Tensor) -> None:
    """Keep `value` for `writer` if values are being collected, else do nothing."""
    values = _collected.get()
    if values is None:
        return
    import keras

    values.append(CollectedValue(writer, keras.ops.convert_to_numpy(value).astype(writer.dtype)))
