"""Values of layers in TensorBoard that the author's function writes with `tf.summary`, instead of returning them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tfaip.backend.active import backend
from tfaip.model.tensorboardwriter import CollectedValue


class OwnSummaries:
    """Functions of `TensorboardWriter`, called so that they may also write by themselves.

    Args:
        directory: of the event files.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: Any = None
        self._writing: set[str] = set()

    def drawing(self, collected: CollectedValue, epoch: int) -> Any:
        """Return what the function of a value returns; None: it has written an event.

        Args:
            collected: the value, with its function.
            epoch: from 1.

        Raises:
            TypeError: if it has done neither.
        """
        name, func = collected.writer.name, collected.writer.func
        if name not in self._writing:
            drawing = func(name, collected.value, epoch)
            if drawing is not None:
                return drawing
            # Called again, once, and from now on at once: no other process has an empty event file.
            self._writing.add(name)
        if self._writer is None:
            self._writer = backend.summary_writer(self._directory)
        if self._writer is None:
            raise TypeError(f"{_described(name, func)} returned nothing: return an image, a number or a curve")
        before = self._bytes()
        with self._writer.as_default(step=epoch):
            drawing = func(name, collected.value, epoch)
        self._writer.flush()
        if drawing is None and self._bytes() == before:
            raise TypeError(
                f"{_described(name, func)} returned nothing and wrote nothing: return an image, a number or a curve, "
                "or write with tf.summary"
            )
        return drawing

    def close(self) -> None:
        """Close the event file, if there is one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _bytes(self) -> int:
        return sum(path.stat().st_size for path in self._directory.glob("*.v2"))


def _described(name: str, func: Any) -> str:
    return f"the function {getattr(func, '__qualname__', type(func).__name__)} of the TensorboardWriter {name!r}"
