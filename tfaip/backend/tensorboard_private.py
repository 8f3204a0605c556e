"""Names of tensorboard that are not documented.

Its documented writer is that of TensorFlow (`tf.summary`), whose import takes seconds and which JAX runs without.
`test/backend/test_keras_private.py` checks what is used here.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from tfaip.backend.environment import provide_module

# tensorboard imports an installed TensorFlow (1.9 s) unless this module can be imported (0.1 s); it is never read.
NO_TENSORFLOW = "tensorboard.compat.notf"
_STRING = 7  # DT_STRING of TensorFlow


def leave_tensorflow_alone() -> None:
    """Keep tensorboard from importing TensorFlow; to be called before its first import.

    If TensorFlow is imported already, nothing is saved, and `tf.summary` would not work any more.
    """
    if "tensorflow" not in sys.modules:
        provide_module(NO_TENSORFLOW)


def record_writer(file: Any) -> Any:
    """Return a writer of records to a binary file; `write` takes the bytes of one."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    return RecordWriter(file)


def event(**fields: Any) -> Any:
    """Return an `Event`, what a record of an event file holds."""
    from tensorboard.compat.proto.event_pb2 import Event

    return Event(**fields)


def session_start(**fields: Any) -> Any:
    """Return the event with which a process begins to write."""
    from tensorboard.compat.proto.event_pb2 import SessionLog

    return event(session_log=SessionLog(status=SessionLog.START), **fields)


def summary(tag: str, tensor: Any, metadata: Any) -> Any:
    """Return the `Summary` of one value.

    Args:
        tag: its name.
        tensor: a `TensorProto`.
        metadata: tells the plugin that shows it.
    """
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata)])


def scalar_summary(tag: str, value: float) -> Any:
    """Return the summary of a number."""
    from tensorboard.plugins.scalar.metadata import create_summary_metadata

    return summary(tag, _tensor(np.asarray(value, np.float32)), create_summary_metadata(None, None))


def text_summary(tag: str, text: str) -> Any:
    """Return the summary of a text, in Markdown."""
    from tensorboard.plugins.text.metadata import create_summary_metadata

    return summary(tag, _string_tensor([text.encode()]), create_summary_metadata(None, None))


def image_summary(tag: str, height: int, width: int, encoded: Sequence[bytes]) -> Any:
    """Return the summary of images of one size, encoded as PNG."""
    from tensorboard.plugins.image import metadata

    described = metadata.create_summary_metadata(None, None, converted_to_tensor=True)
    return summary(tag, _string_tensor([str(width).encode(), str(height).encode(), *encoded]), described)


def curve_summary(tag: str, rows: np.ndarray) -> Any:
    """Return the summary of a precision-recall curve.

    Args:
        tag: its name.
        rows: true and false positives, true and false negatives, precision and recall by threshold.
    """
    # The plugin's own summaries import TensorFlow; metadata and tensor do not.
    from tensorboard.plugins.pr_curve.metadata import create_summary_metadata

    return summary(tag, _tensor(rows.astype(np.float32)), create_summary_metadata(tag, "", rows.shape[1]))


def histogram_summary(tag: str, values: np.ndarray) -> Any:
    """Return the summary of the distribution of numbers."""
    from tensorboard.plugins.histogram.summary_v2 import histogram_pb

    return histogram_pb(tag, values)


def hparams_summary(values: dict[str, float | str | bool], trial_id: str) -> Any:
    """Return the summary of the hyper-parameters of a run."""
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    return hparams_pb(values, trial_id=trial_id)


def _tensor(array: np.ndarray) -> Any:
    from tensorboard.util.tensor_util import make_tensor_proto

    return make_tensor_proto(array)


def _string_tensor(values: list[bytes]) -> Any:
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=len(values))])
    return TensorProto(dtype=_STRING, tensor_shape=shape, string_val=values)
