"""What the tests of files and directories share."""

from __future__ import annotations

from pathlib import Path

from tfaip.util.files import commit_directory


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fail_half_way(target: Path, error: BaseException) -> None:
    with commit_directory(target, ["file"]) as directory:
        (directory / "file").write_text("new")
        raise error
