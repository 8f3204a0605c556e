"""Private names of export archives: the variables that their functions use, and the fingerprint of their files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def archive_variables(archive: Any) -> Mapping[str, Sequence[Any]]:
    """Return the variables that a SavedModel of a `keras.export.ExportArchive` holds, by the name of their list in it.

    The second list, of those that the functions use, exists when the archive has been written once.
    """
    return {"variables": archive.variables, "_all_variables": archive._tf_trackable._all_variables}


def write_fingerprint(directory: Path) -> None:
    """Write the file with the checksums of a SavedModel that is written completely."""
    from tensorflow.python.saved_model import fingerprinting_utils

    fingerprinting_utils.write_fingerprint(str(directory))
