"""Samples in TFRecord files, read without TensorFlow."""

from __future__ import annotations

import struct
from array import array
from functools import cache
from typing import Any

from tfaip.data.generators.decoding import VALUE_BYTES
from tfaip.data.generators.tables import PlacedFile, TableGenerator, refuse_missing
from tfaip.errors import UsageError
from tfaip.util.text import shorten_text

# https://www.tensorflow.org/tutorials/load_data/tfrecord: length, its checksum, data, their checksum.
_LENGTH = struct.Struct("<QI")
_CHECKSUM = struct.Struct("<I")
_FRAME_BYTES = _LENGTH.size + _CHECKSUM.size


class TFRecord(TableGenerator):
    """Samples in TFRecord files of `tf.train.Example`: each feature is a column.

    Numbers are arrays of one dimension (`float32` or `int64`); a feature of one byte string is `bytes`, one of
    several is a list. The files must not be compressed. Needs the extra `tfrecord`.
    """

    def open_table(self, path: str, columns: list[str]) -> _File:
        return _File(path, columns)


class _File:
    """Places of the records: 8 bytes of memory for each."""

    def __init__(self, path: str, columns: list[str]) -> None:
        self._file = PlacedFile(path)
        self._columns = columns
        self._ends = array("q", [0])
        self._checksum = _checksum_function()
        while self._ends[-1] < self._file.size:
            self._ends.append(self._ends[-1] + _FRAME_BYTES + self._length(self._ends[-1]))
        if not len(self):
            raise ValueError("it has no record")
        found = _parse(self._record(0))
        refuse_missing(path, [name for name in columns if name not in found], sorted(found))

    def __len__(self) -> int:
        return len(self._ends) - 1

    def row(self, index: int) -> dict[str, Any]:
        features = _parse(self._record(index))
        return {name: _value(name, features) for name in self._columns}

    def _length(self, place: int) -> int:
        """Return the length of the data of the record at a place."""
        header = self._file.read(_LENGTH.size, place)
        if len(header) == _LENGTH.size:
            length, checksum = _LENGTH.unpack(header)
            if self._checksum(header[:8]) != checksum:
                raise ValueError(f"it is no TFRecord file, or damaged at byte {place:,}")
            if length <= self._file.size - place - _FRAME_BYTES:
                return int(length)
        raise ValueError(f"it is cut off, or no TFRecord file: the record at byte {place:,} has no end")

    def _record(self, index: int) -> bytes:
        begin, end = self._ends[index] + _LENGTH.size, self._ends[index + 1] - _CHECKSUM.size
        if end - begin > VALUE_BYTES:
            raise ValueError(f"a record has {end - begin:,} bytes, more than {VALUE_BYTES:,}")
        content = self._file.read(end - begin + _CHECKSUM.size, begin)
        data = content[: end - begin]
        if content[end - begin :] != _CHECKSUM.pack(self._checksum(data)):
            raise ValueError("it is damaged: its checksum is another one")
        return data


def _checksum_function() -> Any:
    """Return the function that computes the masked CRC-32C of bytes."""
    try:
        from google_crc32c import value
    except ImportError as error:
        raise UsageError(
            "TFRecord files need google-crc32c, which is not installed: pip install 'tfaip[tfrecord]'"
        ) from error

    def checksum(data: bytes) -> int:
        crc = value(data)
        return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    return checksum


def _parse(record: bytes) -> Any:
    """Return the features of a serialized `tf.train.Example` by name."""
    from google.protobuf.message import DecodeError

    try:
        return _example_class().FromString(record).features.feature
    except DecodeError as error:
        raise ValueError(f"it is no tf.train.Example: {shorten_text(str(error), 100)}") from error


def _value(name: str, features: Any) -> Any:
    import numpy as np

    kind = features[name].WhichOneof("kind") if name in features else None
    if kind is None:
        raise ValueError(f"column {name} has no value")
    values = getattr(features[name], kind).value
    if kind == "bytes_list":
        return values[0] if len(values) == 1 else list(values)
    return np.array(values, np.float32 if kind == "float_list" else np.int64)


@cache
def _example_class() -> Any:
    """Return the message `tf.train.Example` (tensorflow/core/example/example.proto), made without TensorFlow."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field, FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    file = FileDescriptorProto(name="example.proto", package="tfaip", syntax="proto3")
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    kinds = [
        ("bytes_list", "BytesList", Field.TYPE_BYTES),
        ("float_list", "FloatList", Field.TYPE_FLOAT),
        ("int64_list", "Int64List", Field.TYPE_INT64),
    ]
    for number, (field, name, kind) in enumerate(kinds, 1):
        file.message_type.add(name=name).field.add(name="value", number=1, type=kind, label=Field.LABEL_REPEATED)
        _add_message(feature, field, number, name).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)
    _add_message(entry, "value", 2, "Feature")
    _add_message(features, "feature", 1, "Features.FeatureEntry").label = Field.LABEL_REPEATED
    _add_message(file.message_type.add(name="Example"), "features", 1, "Features")
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("tfaip.Example"))


def _add_message(owner: Any, name: str, number: int, kind: str) -> Any:
    """Add a field that is a message; return it."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field

    return owner.field.add(
        name=name, number=number, type=Field.TYPE_MESSAGE, type_name=f".tfaip.{kind}", label=Field.LABEL_OPTIONAL
    )
