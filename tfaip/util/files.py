"""Writes that are commits: what is on disk under its final name is always complete.

Everything is written under a temporary name beside its destination, synced, and renamed. A process that is killed at
any moment leaves the old content, or the new one, and perhaps a temporary sibling that the next run removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError

TEMPORARY_PREFIX = ".tmp-"
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def require_writable(path: Path) -> None:
    """Whether a file can be written to `path`, asked before the work that makes its content.

    Raises:
        UsageError: there is no such directory, nothing may be written to it, or the path is a directory.
    """
    if not path.parent.is_dir():
        raise UsageError(f"{path} cannot be written: there is no directory {path.parent}")
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a directory")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(f"{path} cannot be written: no permission to create files in {path.parent}")


def write_text(path: Path, text: str) -> None:
    """Replace the content of the file `path` atomically by `text` (UTF-8)."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # a full disk, or Ctrl-C
        temporary.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def write_json(path: Path, value: Any) -> None:
    """Replace the content of `path` atomically by `value` as JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")


@contextlib.contextmanager
def commit_directory(path: Path) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` when the block ends without an exception.

    An existing `path` is exchanged in one system call where the file system can do that. After an exception nothing
    has changed and nothing is left behind.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        yield temporary
        _sync_tree(temporary)
        _move_over(temporary, path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def link_tree(source: Path, target: Path) -> None:
    """Let the directory `target` hold what `source` holds, as links to the same files where the file system has those.

    A copy that takes no space, of files that are replaced but never changed.
    """
    shutil.copytree(source, target, copy_function=_link_or_copy, dirs_exist_ok=True)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove_directory(path: Path) -> None:
    """Remove a directory so that nobody sees a part of it; nothing happens if there is none."""
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    if path.exists():
        os.rename(path, temporary)
        shutil.rmtree(temporary)


def remove_temporaries(directory: Path) -> None:
    """Remove what a killed process left behind in `directory` (not recursive)."""
    for entry in directory.glob(f"{TEMPORARY_PREFIX}*"):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _move_over(source: Path, target: Path) -> None:
    if not target.exists():
        os.rename(source, target)
    elif not _exchange(source, target):
        # Without the system call there is a moment without `target`; a reader sees nothing, never a half.
        shutil.rmtree(target)
        os.rename(source, target)
    _sync_directory(target.parent)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two paths atomically (Linux >= 3.15); False where the system or the file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0)


def _sync_tree(directory: Path) -> None:
    for root, _, files in os.walk(directory):
        for name in files:
            with open(os.path.join(root, name), "rb") as file:
                os.fsync(file.fileno())
        _sync_directory(Path(root))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
