"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Protocol, runtime_checkable

import numpy as np

from tfaip.backend import tensorboard_private as tensorboard
from tfaip.util.files import failures_named, write_bytes

_EVENT_FILE = re.compile(r"events\.out\.tfevents\.(\d+)\.")
_FILE_VERSION = "brain.Event:2"

# Sorted before all others.
_FIRST_FILE = "events.out.tfevents.0000000000.hparams"


@runtime_checkable
class Curve(Protocol):
    """A precision-recall curve; `tfaip.evaluator.precisionrecall.PrecisionRecallCurve` is one.

    Args:
        counts: true positives, false positives, true negatives and false negatives, shape `[4, n]`.
        precision: at each of the n thresholds.
        recall: at each of the n thresholds.
    """

    counts: np.ndarray
    precision: np.ndarray
    recall: np.ndarray


class EventWriter:
    """Writer of the values that TensorBoard shows of one kind of data (`train`, `validation`).

    Args:
        directory: of the event file, which is created with the first value. From its first step on,
            TensorBoard replaces the values of a previous process in this directory.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file: IO[bytes] | None = None

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write values by tag."""
        for tag, value in values.items():
            self._write(tensorboard.scalar_summary(tag, value), step)

    def text(self, tag: str, text: str, step: int) -> None:
        """Write a text, in Markdown."""
        self._write(tensorboard.text_summary(tag, text), step)

    def image(self, tag: str, image: np.ndarray, step: int) -> None:
        """Write an image `[height, width, channels]`, or `[n, ...]`, uint8 or floats in [0, 1]."""
        images = image[None] if image.ndim == 3 else image
        if images.ndim != 4:
            raise ValueError(f"image {tag!r} has the shape {image.shape}, expected [height, width, channels]")
        height, width = images.shape[1:3]
        self._write(tensorboard.image_summary(tag, height, width, [_png(one) for one in images]), step)

    def curve(self, tag: str, curve: Curve, step: int) -> None:
        """Write a precision-recall curve."""
        rows = np.vstack([curve.counts, curve.precision, curve.recall])
        self._write(tensorboard.curve_summary(tag, rows), step)

    def drawing(self, tag: str, value: Any, step: int) -> None:
        """Write a drawing: a scalar, an image, a precision-recall curve, or a dict of these."""
        if isinstance(value, dict):
            for key, part in value.items():
                self.drawing(f"{tag}/{key}", part, step)
        elif isinstance(value, Curve):
            self.curve(tag, value, step)
        elif np.ndim(value) == 0:
            self.scalars({tag: float(value)}, step)
        else:
            self.image(tag, np.asarray(value), step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Write the distribution of the numbers of an array."""
        self._write(tensorboard.histogram_summary(tag, values), step)

    def hparams(self, values: Mapping[str, float | str | bool], step: int) -> None:
        """Write the hyper-parameters of the run; those of an earlier process are replaced.

        TensorBoard keeps the first ones that it reads. So they have a file of their own, which it
        reads before all others; a running server shows new ones after a restart.
        """
        tensorboard.leave_tensorflow_alone()
        summary = tensorboard.hparams_summary(dict(values), str(self._directory))
        with failures_named(self._directory):
            self._directory.mkdir(parents=True, exist_ok=True)
            # TensorBoard takes the time of the first event for the start of the run.
            start = min([int(time.time()), *_file_seconds(self._directory)])
        content = io.BytesIO()
        _write_event(content, tensorboard.event(wall_time=start, file_version=_FILE_VERSION))
        _write_event(content, tensorboard.event(wall_time=start, step=step, summary=summary))
        write_bytes(self._directory / _FIRST_FILE, content.getvalue())

    def flush(self) -> None:
        """Make the written values visible to readers."""
        if self._file is not None:
            with failures_named(self._directory):
                self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._file is not None:
            # A value that could not be written was reported when it was written.
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, summary: Any, step: int) -> None:
        with failures_named(self._directory):
            if self._file is None:
                self._file = _create_file(self._directory, step)
            _write_event(self._file, tensorboard.event(wall_time=time.time(), step=step, summary=summary))


def _create_file(directory: Path, first_step: int) -> IO[bytes]:
    """Create an event file that is read after all others in its directory.

    TensorBoard reads files in the order of their names, which begin with the second of their
    creation. Two processes in the same second, or a clock that was set back, would hide the values
    of the second process.
    """
    tensorboard.leave_tensorflow_alone()
    directory.mkdir(parents=True, exist_ok=True)
    second = max([int(time.time()), *(1 + other for other in _file_seconds(directory))])
    name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.{os.getpid()}"
    file = open(directory / name, "xb")  # noqa: SIM115 (closed by the writer)
    _write_event(file, tensorboard.event(wall_time=time.time(), file_version=_FILE_VERSION))
    # TensorBoard takes the first start in a directory for its beginning, each other for a restart.
    _write_event(file, tensorboard.session_start(wall_time=time.time(), step=first_step))
    return file


def _write_event(file: IO[bytes], event: Any) -> None:
    tensorboard.record_writer(file).write(event.SerializeToString())


def _file_seconds(directory: Path) -> list[int]:
    """Return the seconds in the names of event files."""
    matches = [_EVENT_FILE.match(path.name) for path in directory.iterdir() if path.name != _FIRST_FILE]
    return [int(match[1]) for match in matches if match]


def _png(image: np.ndarray) -> bytes:
    """Encode one image as PNG (Pillow is a dependency of tensorboard)."""
    from PIL import Image

    if image.dtype != np.uint8:
        image = (np.clip(image, 0.0, 1.0) * 255).round().astype(np.uint8)
    if image.shape[-1] == 1:
        image = image[..., 0]
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, format="PNG")
    return buffer.getvalue()
