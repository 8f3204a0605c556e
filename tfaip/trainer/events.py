"""TensorBoard event files, written without TensorFlow."""

from __future__ import annotations

import contextlib
import io
import os
import re
import socket
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.evaluator.precisionrecall import PrecisionRecallCurve
from tfaip.util.files import failures_named, write_bytes

_NO_TENSORFLOW = "tensorboard.compat.notf"
_EVENT_FILE = re.compile(r"events\.out\.tfevents\.(\d+)\.")

# Sorted before all others.
_FIRST_FILE = "events.out.tfevents.0000000000.hparams"


class EventWriter:
    """Writes what TensorBoard shows of one kind of data (`train`, `validation`) to a directory.

    Args:
        directory: where the event file goes; created with the first value. TensorBoard forgets what a previous process
            wrote there from the first step on.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: _EventFile | None = None

    def scalars(self, values: Mapping[str, float], step: int) -> None:
        """Write values by tag."""
        from tensorboard.plugins.scalar.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        for tag, value in values.items():
            tensor = make_tensor_proto(np.asarray(value, np.float32))
            self._add(tag, tensor, create_summary_metadata(None, None), step)

    def image(self, tag: str, image: np.ndarray, step: int) -> None:
        """Write one image `[height, width, channels]` or several `[n, height, width, channels]`, uint8 or in [0, 1]."""
        from tensorboard.plugins.image import metadata

        images = image[None] if image.ndim == 3 else image
        if images.ndim != 4:
            raise ValueError(f"image {tag!r} has the shape {image.shape}, expected [height, width, channels]")
        height, width = images.shape[1:3]
        encoded = [str(width).encode(), str(height).encode(), *(_png(one) for one in images)]
        self._add(
            tag, _string_tensor(encoded), metadata.create_summary_metadata(None, None, converted_to_tensor=True), step
        )

    def curve(self, tag: str, curve: PrecisionRecallCurve, step: int) -> None:
        """Write a precision-recall curve."""
        from tensorboard.plugins.pr_curve.metadata import create_summary_metadata
        from tensorboard.util.tensor_util import make_tensor_proto

        rows = np.vstack([curve.counts, curve.precision, curve.recall]).astype(np.float32)
        self._add(tag, make_tensor_proto(rows), create_summary_metadata(tag, "", rows.shape[1]), step)

    def drawing(self, tag: str, value: Any, step: int) -> None:
        """Write what users draw: a scalar, an image, a `PrecisionRecallCurve`, or a dict of these by further tags."""
        if isinstance(value, dict):
            for key, part in value.items():
                self.drawing(f"{tag}/{key}", part, step)
        elif isinstance(value, PrecisionRecallCurve):
            self.curve(tag, value, step)
        elif np.ndim(value) == 0:
            self.scalars({tag: float(value)}, step)
        else:
            self.image(tag, np.asarray(value), step)

    def histogram(self, tag: str, values: np.ndarray, step: int) -> None:
        """Write the distribution of the numbers of an array."""
        from tensorboard.plugins.histogram.summary_v2 import histogram_pb

        self._write(histogram_pb(tag, values), step)

    def hparams(self, values: Mapping[str, float | str | bool], step: int) -> None:
        """Write the hyper-parameters of the run; those that an earlier process wrote are replaced.

        TensorBoard keeps the first ones that it reads. So they have a file of their own, which it reads before all
        others; a server that is running shows new ones when it is started again.
        """
        _leave_tensorflow_alone()
        from tensorboard.plugins.hparams.summary_v2 import hparams_pb

        summary = hparams_pb(dict(values), trial_id=str(self._directory))
        self._directory.mkdir(parents=True, exist_ok=True)
        # The time of a run is that of its first event.
        began = min([int(time.time()), *_seconds(self._directory)])
        _replace_file(self._directory / _FIRST_FILE, summary, step, began)

    def flush(self) -> None:
        """Make what was written visible to readers."""
        if self._writer is not None:
            self._writer.flush()

    def close(self) -> None:
        """Flush and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None

    def _add(self, tag: str, tensor: Any, metadata: Any, step: int) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._write(Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)]), step)

    def _write(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._open(step).add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def _open(self, first_step: int) -> _EventFile:
        if self._writer is None:
            self._writer = _EventFile(self._directory)
            from tensorboard.compat.proto.event_pb2 import Event, SessionLog

            # TensorBoard takes the first start in a directory for its beginning, each further one for a restart.
            start = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=first_step, session_log=start))
        return self._writer


class _EventFile:
    """A new event file, read after all that are in its directory.

    TensorBoard reads files in the order of their names, which begin with the second of their creation. Two processes
    in the same second, or a clock that was set back, would hide what the second one wrote.
    """

    def __init__(self, directory: Path) -> None:
        _leave_tensorflow_alone()
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._path = directory
        with failures_named(directory):
            directory.mkdir(parents=True, exist_ok=True)
        second = max([int(time.time()), *(1 + other for other in _seconds(directory))])
        name = f"events.out.tfevents.{second:010d}.{socket.gethostname()}.{os.getpid()}"
        self._file = open(directory / name, "xb")  # noqa: SIM115 (closed by close)
        self._records = RecordWriter(self._file)
        self.add_event(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add_event(self, event: Any) -> None:
        with failures_named(self._path):
            self._records.write(event.SerializeToString())

    def flush(self) -> None:
        with failures_named(self._path):
            self._file.flush()

    def close(self) -> None:
        # What could not be written has been reported, or is reported by the error that ends the training.
        with contextlib.suppress(OSError):
            self._file.close()


def _leave_tensorflow_alone() -> None:
    # tensorboard imports an installed TensorFlow (seconds) unless this module can be imported; it is not read.
    sys.modules.setdefault(_NO_TENSORFLOW, types.ModuleType(_NO_TENSORFLOW))


def _seconds(directory: Path) -> list[int]:
    """Return the seconds in the names of event files."""
    matches = (_EVENT_FILE.match(path.name) for path in directory.iterdir() if path.name != _FIRST_FILE)
    return [int(match[1]) for match in matches if match]


def _replace_file(path: Path, summary: Any, step: int, wall_time: float) -> None:
    """Write an event file with one summary, atomically."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    records = RecordWriter(content)
    records.write(Event(wall_time=wall_time, file_version="brain.Event:2").SerializeToString())
    records.write(Event(wall_time=wall_time, step=step, summary=summary).SerializeToString())
    write_bytes(path, content.getvalue())


def _string_tensor(values: list[bytes]) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=len(values))])
    return TensorProto(dtype=7, tensor_shape=shape, string_val=values)  # 7: DT_STRING


def _png(image: np.ndarray) -> bytes:
    """Encode one image as PNG (Pillow is a dependency of tensorboard)."""
    from PIL import Image

    if image.dtype != np.uint8:
        image = (np.clip(image, 0.0, 1.0) * 255).round().astype(np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(buffer, format="PNG")
    return buffer.getvalue()
