"""Tar files in the layout of WebDataset."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tfaip.data.generators.tarshards import TarShards
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import UsageError

END = bytes(1024)


def add(archive: tarfile.TarFile, name: str, content: bytes, **changes: Any) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for field, value in changes.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(content))


def npy(value: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, value)
    return stream.getvalue()


def png(value: int) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.full((2, 3, 3), value, np.uint8)).save(stream, "png")
    return stream.getvalue()


def read(path: Path, *columns: str, **options: Any) -> Any:
    return TarShards(files=[str(path)], input_columns=list(columns), **options).create(PipelineMode.TRAINING)


@pytest.fixture(params=[tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT], ids=["ustar", "gnu", "pax"])
def shard(request: Any, tmp_path: Path) -> Path:
    """Three samples, with what else may be in an archive."""
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=request.param) as archive:
        long = "d" * 90 + "/" + "e" * 90  # too long for the name of a header
        for number in range(3):
            stem = [f"{long}/0", "dir.x/0", "dir.x/ü"][number]
            add(archive, "README", b"no sample")
            add(archive, f"{stem}.png", png(number))
            add(archive, f"{stem}.cls", str(number).encode())
            add(archive, f"{stem}.seg.npy", npy([number, 5]))
            add(archive, f"{stem}.json", json.dumps({"number": number}).encode())
            add(archive, f"{stem}.bin", bytes([number]) * 600)
            add(archive, f"{stem}.txt", b"", type=tarfile.SYMTYPE, linkname="/etc/passwd")
            add(archive, ".hidden", b"no sample")
    return path


def test_columns_are_extensions(shard: Path) -> None:
    samples = read(shard, "png", "seg.npy", "json", "bin", target_columns=["cls"])
    assert len(samples) == 3
    for number in (2, 0, 1):
        sample = samples[number]
        assert sample.inputs["png"].shape == (2, 3, 3)
        assert sample.inputs["png"].max() == number
        assert sample.inputs["seg.npy"].tolist() == [number, 5]
        assert sample.inputs["json"] == {"number": number}
        assert sample.inputs["bin"] == bytes([number]) * 600
        assert sample.targets == {"cls": number}
        assert sample.meta == {"file": str(shard), "row": number}
    gray = read(shard, "png", "cls", decode={"png": "gray", "cls": "text"})
    assert gray[1].inputs["png"].shape == (2, 3, 1)
    assert gray[1].inputs["cls"] == "1"
    with pytest.raises(UsageError, match=r"^the file \S* has no column txt: it has bin, cls, json, png, seg.npy$"):
        len(read(shard, "txt"))  # a link is no value


def test_a_sample_without_a_column_or_with_a_damaged_one_costs_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        add(archive, "./1.png", png(1))
        add(archive, "1.cls", b"1")
        add(archive, "2.png", png(1))
        add(archive, "3.cls", b"x")
        add(archive, "4.cls", b"4")
    samples = read(path, "cls")
    assert len(samples) == 4
    assert [samples[index].inputs["cls"] for index in (0, 3)] == [1, 4]
    for index, reason in ((1, "column cls has no value"), (2, "column cls: expected the number of a class, got 'x'")):
        with pytest.raises(UsageError) as caught:
            samples[index]
        assert str(caught.value) == f"cannot read the TarShards file {path}, row {index}: {reason}"


def made(tmp_path: Path, *members: tuple[str, bytes]) -> bytes:
    path = tmp_path / "made.tar"
    with tarfile.open(path, "w") as archive:
        for name, content in members:
            add(archive, name, content)
    return path.read_bytes()


def with_size(content: bytes, size: bytes) -> bytes:
    """The first header with another size, and its checksum."""
    header = bytearray(content[:512])
    header[124:136] = size
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + content[512:]


def test_archives_that_are_damaged_or_hostile(tmp_path: Path) -> None:
    good = made(tmp_path, ("1.cls", b"1"), ("2.cls", b"2"))
    path = tmp_path / "a.tar"
    cut = "it is cut off, or no tar file: the mark of its end is missing"
    records = tarfile.TarInfo("x")
    records.type = b"x"
    records.size = 1 << 20
    huge = records.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20) + END
    sized = tarfile.TarInfo("1.cls").tobuf(tarfile.PAX_FORMAT) + END
    for content, reason in (
        (b"", cut),
        (good[:10], "it is no tar file, or damaged"),
        (good[:1024], cut),
        (good[:1500], "it is no tar file, or damaged"),
        (good[:512] + b"x" * 512 + b"y" * 512, "it is no tar file, or damaged"),
        (gzip.compress(good), "it is compressed: unpack it (gunzip), so that samples can be read in any order"),
        (made(tmp_path, ("1.cls", b"1"), ("1.cls", b"2")), "it has two members '1.cls'"),
        (huge, "a header in it has 1,048,576 bytes, more than 65,536"),
        (with_size(good, b"77777777777\0"), cut),
        (with_size(good, b"\x80" + b"\xff" * 11), cut),
        (with_size(good, b"-0000000001\0"), "it is no tar file, or damaged: b'-0000000001\\x00' is no number"),
        (with_size(good, b"\xff" * 12), "it is no tar file, or damaged: "),
    ):
        path.write_bytes(content)
        with pytest.raises(UsageError) as caught:
            len(read(path, "cls"))
        assert str(caught.value).startswith(f"cannot read the TarShards file {path}: {reason}"), caught.value
        assert len(str(caught.value)) < 320
    path.write_bytes(sized)
    with pytest.raises(UsageError, match="column cls"):
        read(path, "cls")[0]
    (tmp_path / "pipe.tar").mkdir()
    with pytest.raises(UsageError, match="^cannot read the TarShards file"):
        len(read(tmp_path / "pipe.tar", "cls"))


def test_names_with_line_ends_and_many_extensions(tmp_path: Path) -> None:
    stem = "a" * 120 + "\n16 path=other\n"
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(200):
            add(archive, f"{stem}.x{number}", bytes([number]))
    assert [sample.inputs["x199"] for sample in read(path, "x199")] == [bytes([199])]


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        add(archive, "a.txt", b"1\n0\n1\n", pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"})
    with pytest.raises(UsageError, match="it has a sparse file: pack it without --sparse"):
        len(read(path, "txt"))
