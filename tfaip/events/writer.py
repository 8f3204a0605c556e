"""TensorBoard event files, written without TensorFlow: its `tf.summary` takes seconds to import, and JAX has none."""

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

from tfaip.util.files import failures_named, write_bytes

_EVENT_FILE = re.compile(r"events\.out\.tfevents\.0*([1-9]\d*)\.")
_FILE_VERSION = "brain.Event:2"
_HISTOGRAM_BUCKETS = 30


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
        """Write values by tag, as one short event: each record costs a checksum in Python."""
        if values:
            self._write_summary([{"tag": tag, "simple_value": value} for tag, value in values.items()], step)

    def image(self, tag: str, image: np.ndarray, step: int) -> None:
        """Write an image `[height, width, channels]`, or `[n, ...]`, uint8 or floats in [0, 1]."""
        images = image[None] if image.ndim == 3 else image
        if images.ndim != 4:
            raise ValueError(f"image {tag!r} has the shape {image.shape}, expected [height, width, channels]")
        height, width = images.shape[1:3]
        self._write(tag, "images", [b"%d" % width, b"%d" % height, *map(_png, images)], step)

    def drawing(self, tag: str, value: Any, step: int) -> None:
        """Write a drawing: a scalar, an image, a precision-recall curve, or a dict of these."""
        if isinstance(value, dict):
            for key, part in value.items():
                self.drawing(f"{tag}/{key}", part, step)
        elif isinstance(value, Curve):
            rows = np.vstack([value.counts, value.precision, value.recall])
            self._write(tag, "pr_curves", rows.astype(np.float32), step)
        elif np.ndim(value) == 0:
            self.scalars({tag: float(value)}, step)
        else:
            self.image(tag, np.asarray(value), step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Write the distribution of the finite numbers of an array."""
        numbers = values.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        low, high = (finite.min(), finite.max()) if finite.size else (0.0, 0.0)
        counts, edges = np.histogram(finite, np.linspace(low, high, _HISTOGRAM_BUCKETS + 1))
        self._write(tag, "histograms", np.stack([edges[:-1], edges[1:], counts], axis=1), step)

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

    def _write(self, tag: str, plugin: str, values: np.ndarray | list[bytes], step: int) -> None:
        """Write the numbers or texts of a tag, to be shown by a plugin of TensorBoard."""
        if isinstance(values, list):
            tensor: dict[str, Any] = {"dtype": "DT_STRING", "string_val": values}
        elif values.dtype == np.float64:
            tensor = {"dtype": "DT_DOUBLE", "double_val": values.ravel()}
        else:
            tensor = {"dtype": "DT_FLOAT", "float_val": values.ravel()}
        tensor["tensor_shape"] = {"dim": [{"size": size} for size in np.shape(values)]}
        shown = {"tag": tag, "tensor": tensor, "metadata": {"plugin_data": {"plugin_name": plugin}}}
        self._write_summary([shown], step)

    def _write_summary(self, values: list[dict[str, Any]], step: int) -> None:
        with failures_named(self._directory):
            if self._file is None:
                self._file = _create_file(self._directory, step)
            _write_event(self._file, wall_time=time.time(), step=step, summary={"value": values})


def write_hparams(path: Path, values: Mapping[str, float | str | bool]) -> None:
    """Write the hyper-parameters of a run to a file of their own, since TensorBoard keeps the first ones that it reads.

    A running server shows new ones after a restart.
    """
    from google.protobuf.struct_pb2 import Struct
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    hparams, now = Struct(), time.time()
    hparams.update(values)
    data = HParamsPluginData(session_start_info={"start_time_secs": now, "hparams": hparams.fields})
    plugin = {"plugin_name": "hparams", "content": data.SerializeToString()}
    shown = {"tag": "_hparams_/session_start_info", "metadata": {"plugin_data": plugin}}
    content = io.BytesIO()
    _write_event(content, wall_time=now, file_version=_FILE_VERSION)
    _write_event(content, wall_time=now, summary={"value": [shown]})
    write_bytes(path, content.getvalue())


def _create_file(directory: Path, first_step: int) -> IO[bytes]:
    """Create an event file that is read after all others in its directory.

    TensorBoard reads files in the order of their names, which begin with the second of their creation. Two processes in
    the same second, or a clock that was set back, would hide the values of the second process.
    """
    directory.mkdir(parents=True, exist_ok=True)
    second = max([int(time.time()), *(1 + other for other in _file_seconds(directory))])
    name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.{os.getpid()}"
    file = open(directory / name, "xb")  # noqa: SIM115 (closed by the writer)
    _write_event(file, wall_time=time.time(), file_version=_FILE_VERSION)
    # TensorBoard takes the first start in a directory for its beginning, each other for a restart.
    _write_event(file, wall_time=time.time(), step=first_step, session_log={"status": "START"})
    return file


def _write_event(file: IO[bytes], **fields: Any) -> None:
    """Write a record with an `Event`, whose messages are given as dicts."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    RecordWriter(file).write(Event(**fields).SerializeToString())


def _file_seconds(directory: Path) -> list[int]:
    """Return the seconds in the names of event files."""
    matches = [_EVENT_FILE.match(path.name) for path in directory.iterdir()]
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
