"""Zip files that expand are recognised before they do."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tfaip.util.archives import require_uncompressed


def test_compressed_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("stored", b"a" * 100)
    require_uncompressed(path)
    for method in (zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("stored", b"a" * 100)
            archive.writestr("packed", b"a" * 100, compress_type=method)
        with pytest.raises(ValueError, match="packed is compressed and may expand to any size"):
            require_uncompressed(path)


def test_what_is_no_zip(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"nothing")
    with pytest.raises(zipfile.BadZipFile):
        require_uncompressed(tmp_path / "file")
