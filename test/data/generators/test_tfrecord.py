"""TFRecord files against TensorFlow's own writer and reader."""

from __future__ import annotations

import gzip
import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from tfaip.data.generators.tfrecord import TFRecord
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import UsageError

pytest.importorskip("google_crc32c")
RNG = np.random.default_rng(3)


def example(**features: Any) -> Any:
    made = {}
    for name, values in features.items():
        if isinstance(values[0], bytes):
            made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        elif isinstance(values[0], float):
            made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=values))
        else:
            made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Example(features=tf.train.Features(feature=made))


def write(path: Path, *examples: Any) -> bytes:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for each in examples:
            writer.write(each.SerializeToString())
    return path.read_bytes()


def read(path: Path, *columns: str, **options: Any) -> Any:
    return TFRecord(files=[str(path)], input_columns=list(columns), **options).create(PipelineMode.TRAINING)


def test_samples_are_those_of_tensorflow(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    columns = {"x": tf.io.FixedLenFeature([3], tf.float32), "y": tf.io.FixedLenFeature([2], tf.int64)}
    examples = [
        example(x=RNG.normal(size=3).tolist(), y=[number, -(2**62) + number], name=[bytes([number]) * number or b"-"])
        for number in range(20)
    ]
    write(path, *examples)
    theirs = [
        tf.io.parse_single_example(record, {**columns, "name": tf.io.FixedLenFeature([], tf.string)})
        for record in tf.data.TFRecordDataset(str(path))
    ]
    ours = read(path, "x", "name", target_columns=["y"])
    assert len(ours) == len(theirs) == 20
    for number in (19, 0, *range(20)):
        sample, expected = ours[number], theirs[number]
        assert sample.inputs["x"].dtype == np.float32
        np.testing.assert_array_equal(sample.inputs["x"], expected["x"].numpy())
        assert sample.targets["y"].dtype == np.int64
        np.testing.assert_array_equal(sample.targets["y"], expected["y"].numpy())
        assert sample.inputs["name"] == expected["name"].numpy()
        assert sample.meta == {"file": str(path), "row": number}


def test_bytes_and_their_decoders(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    stream = io.BytesIO()
    Image.fromarray(np.full((2, 3, 3), 7, np.uint8)).save(stream, "png")
    write(path, example(image=[stream.getvalue()], words=[b"a", b"b"]))
    sample = read(path, "image", "words", decode={"image": "image"})[0]
    assert sample.inputs["image"].tolist() == np.full((2, 3, 3), 7).tolist()
    assert sample.inputs["words"] == [b"a", b"b"]


def test_damaged_records(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    good = write(path, example(x=[1.0]), example(x=[2.0]), example(z=[3.0]))
    first = 16 + struct.unpack("<Q", good[:8])[0]
    # The data of a record: it costs this sample.
    path.write_bytes(good[: first + 13] + b"\xff" + good[first + 14 :])
    samples = read(path, "x")
    assert samples[0].inputs["x"].tolist() == [1.0]
    for row, reason in ((1, "it is damaged: its checksum is another one"), (2, "column x has no value")):
        with pytest.raises(UsageError) as caught:
            samples[row]
        assert str(caught.value) == f"cannot read the TFRecord file {path}, row {row}: {reason}"
    huge = struct.pack("<Q", 2**63)
    for content, reason in (
        (b"", "it has no record"),
        (good[:5], "it is cut off, or no TFRecord file: the record at byte 0 has no end"),
        (good[:-1], "it is cut off, or no TFRecord file: the record at byte "),
        (b"x" * 100, "it is no TFRecord file, or damaged at byte 0"),
        (good[:first] + b"\0" + good[first + 1 :], f"it is no TFRecord file, or damaged at byte {first}"),
        (huge + _masked(huge) + bytes(99), "it is cut off, or no TFRecord file: the record at byte 0 has no end"),
        (gzip.compress(good), "it is compressed: unpack it (gunzip), so that samples can be read in any order"),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            len(read(path, "x"))
        assert str(caught.value).startswith(f"cannot read the TFRecord file {path}: {reason}"), caught.value


def _masked(data: bytes) -> bytes:
    import google_crc32c

    crc = google_crc32c.value(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def test_a_record_that_is_no_example(tmp_path: Path) -> None:
    path = tmp_path / "a.tfrecord"
    write(path, example(x=[1.0]))
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(example(x=[1.0]).SerializeToString())
        writer.write(b"\xff\xff\xff")
    with pytest.raises(UsageError, match=r", row 1: it is no tf.train.Example: "):
        read(path, "x")[1]
    with pytest.raises(UsageError, match=r"^the file \S* has no column y: it has x$"):
        len(read(path, "y"))
