"""The run that tfaip 1.2 wrote, and what it computed with its models.

`git show c6765723:test/data/former/write.py` is the script that wrote it, with its environment.
"""

import json
import tarfile
from pathlib import Path
from typing import Any

from test.support.commands import REPOSITORY

ARCHIVE = REPOSITORY / "test" / "data" / "former" / "run.tar.xz"


def unpack_former(directory: Path) -> Path:
    """Unpack the run into a directory, where it may be changed, and return its path."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(directory, filter="data")
    return directory / "run"


def expected_of(run: Path) -> Any:
    """Return the samples that 1.2 predicted with `best` and `export`, and the scores of `lav` of `export`."""
    return json.loads((run / "expected.json").read_text())
