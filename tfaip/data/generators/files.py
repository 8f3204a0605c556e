"""What generators say about the files that they are given."""

from __future__ import annotations

from pathlib import Path

from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.errors import UsageError
from tfaip.util.text import shorten_text

_BRANCHES = {PipelineMode.TRAINING: "train", PipelineMode.EVALUATION: "val"}


def no_file(kind: str, mode: PipelineMode, name: str) -> UsageError:
    """The error that there is no file.

    Args:
        kind: of file, e.g. `CSV`.
        mode: what its samples are for.
        name: of the field that holds files.
    """
    branch = _BRANCHES.get(mode, "data")
    return UsageError(f"no {kind} file is given for the {mode}: name at least one, e.g. --{branch}.{name} FILE")


def unreadable(kind: str, path: str | Path, error: Exception) -> UsageError:
    """The error that a file cannot be read, with the reason and without naming the file twice."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return UsageError(f"cannot read the {kind} file {shorten_text(str(path), 160)}: {reason}")
