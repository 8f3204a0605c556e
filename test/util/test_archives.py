"""Zip files that expand are recognised before they do."""

from __future__ import annotations

import copy
import io
import zipfile
from pathlib import Path

import pytest

from tfaip.util.reading import open_stored


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("stored", b"a" * 100)
    open_stored(path).close()
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("stored", b"a" * 100)
            archive.writestr("packed", b"a" * 100, compress_type=method)
        with pytest.raises(ValueError, match="packed is compressed and may expand to any size"):
            open_stored(path).close()


def test_what_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"nothing")
    with pytest.raises(zipfile.BadZipFile):
        open_stored(tmp_path / "file")


def overlapping(names: int, content: bytes) -> bytes:
    """A zip in which so many names share the content of one member."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("0.npy", content)
        first = archive.infolist()[0]
        for number in range(1, names):
            member = copy.copy(first)
            member.filename = f"{number}.npy"
            archive.filelist.append(member)
            archive.NameToInfo[member.filename] = member
        archive._didModify = True
    return buffer.getvalue()


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(overlapping(3, b"a" * 100))
    with pytest.raises(ValueError, match="npy overlaps another member; what we write never does"):
        open_stored(tmp_path / "file")


def test_a_member_that_claims_more_than_the_file_has(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("member", b"a" * 100)
        archive.infolist()[0].file_size = archive.infolist()[0].compress_size = 10**6
        archive._didModify = True
    (tmp_path / "file").write_bytes(buffer.getvalue())
    with pytest.raises(ValueError, match="member claims to be larger than the file"):
        open_stored(tmp_path / "file")
