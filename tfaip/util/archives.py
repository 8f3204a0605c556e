"""Zip files of strangers."""

from __future__ import annotations

import zipfile
from pathlib import Path


def require_uncompressed(path: Path) -> None:
    """Refuse a zip with compressed members, which may expand to a thousand times their size; ours have none.

    Raises:
        ValueError: a member is compressed.
        zipfile.BadZipFile: no zip.
    """
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED:
                raise ValueError(f"{member.filename} is compressed and may expand to any size; what we write never is")
