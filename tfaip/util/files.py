"""Writes that are commits: what is on disk under its final name is always complete.

Everything is written under a temporary name beside its destination, synced, and renamed. A process that is killed at
any moment leaves the old content, or the new one, and perhaps a temporary sibling that the next run removes.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.util.names import TEMPORARY_PREFIX, path_problem
from tfaip.util.text import shorten, shorten_text

__all__ = [
    "TEMPORARY_PREFIX",
    "commit_directory",
    "failures_named",
    "final_name",
    "is_ours",
    "link_entry",
    "link_tree",
    "locked_directory",
    "remove_directory",
    "remove_temporaries",
    "require_creatable",
    "require_writable",
    "write_bytes",
    "write_json",
    "write_text",
]
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


def require_writable(path: Path) -> None:
    """Raise unless a file can be written to `path`; called before the work that makes its content.

    Raises:
        UsageError: no file can have the path, there is no such directory, nothing may be written to it, or the path is
            that of something else than a file.
    """
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"{shorten(str(path))} cannot be written: the path {problem}")
    shown = shorten_text(str(path))
    if not path.parent.is_dir():
        raise UsageError(f"{shown} cannot be written: there is no directory {shorten_text(str(path.parent))}")
    if path.is_dir():
        raise UsageError(f"{shown} cannot be written: it is a directory")
    if path.exists() and not path.is_file():
        raise UsageError(f"{shown} cannot be written: it is no regular file")
    require_creatable(path)


def require_creatable(path: Path) -> None:
    """Raise unless entries can be created in the directory that `path` is in, where it is written under another name.

    Raises:
        UsageError: there is no permission.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK):
        shown = shorten_text(str(path))
        raise UsageError(f"{shown} cannot be written: no permission to create files in {path.parent}")


@contextlib.contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Context of writing `path`: an error of the system (a full disk) becomes one that names it.

    Raises:
        TfaipError: instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        # A file elsewhere: what is written is read from there.
        other = "" if error.filename is None or _is_below(error.filename, path) else f" ({shorten(error.filename)})"
        raise TfaipError(f"{shorten_text(str(path), 160)} cannot be written: {shorten_text(reason)}{other}") from error


def _is_below(filename: Any, path: Path) -> bool:
    return TEMPORARY_PREFIX in str(filename) or Path(str(filename)).is_relative_to(path)


@contextlib.contextmanager
def locked_directory(path: Path) -> Iterator[None]:
    """Hold an existing directory for this process alone; released also when the process dies.

    Raises:
        BlockingIOError: another process holds it.
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def write_text(path: Path, text: str) -> None:
    """Replace the content of the file `path` atomically by `text` (UTF-8); see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of the file `path` atomically.

    Raises:
        TfaipError: it cannot be written, or is something else than a file.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    with failures_named(path):
        if os.path.lexists(path) and not os.path.isfile(path):
            raise TfaipError(f"{path} cannot be written: it is no regular file")
        # Left by a process that was killed; a new file is never written through a link.
        temporary.unlink(missing_ok=True)
        try:
            with open(temporary, "xb") as file:
                file.write(content)
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
def commit_directory(path: Path, marks: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` when the block ends without an exception.

    An existing `path` is exchanged in one system call where the file system can do that. After an exception nothing
    has changed and nothing is left behind.

    Args:
        path: the directory.
        marks: names of files: an existing directory is replaced only if it is empty or holds one of them.

    Raises:
        TfaipError: `path` exists and was not written by the toolkit, or the directory cannot be written.
    """
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    with failures_named(path):
        _require_ours(path, marks)
        _remove_tree(temporary)
        try:
            temporary.mkdir(parents=True)
            yield temporary
            _sync_tree(temporary)
            # Once more: the content may have taken long to write.
            _require_ours(path, marks)
            _move_over(temporary, path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def is_ours(path: Path, marks: Collection[str]) -> bool:
    """Return True if `path` is a directory, no link to one, that is empty or holds a file of one of the names `marks`.

    Nothing else is ever replaced or removed as a whole.
    """
    if path.is_symlink() or not path.is_dir():
        return False
    return any((path / mark).is_file() for mark in marks) or next(path.iterdir(), None) is None


def _require_ours(path: Path, marks: Collection[str]) -> None:
    if os.path.lexists(path) and not is_ours(path, marks):
        raise TfaipError(
            f"{shorten_text(str(path), 160)} is neither replaced nor removed: it is no directory that was written here "
            "before; move it away"
        )


def link_tree(source: Path, target: Path) -> None:
    """Let the directory `target` hold what `source` holds, as links to the same files where the file system has those.

    A copy that takes no space, of files that are replaced but never changed. Links stay links: what they lead to is
    not copied.
    """
    shutil.copytree(source, target, symlinks=True, copy_function=_link_or_copy, dirs_exist_ok=True)


def link_entry(source: Path, target: Path) -> None:
    """Let `target`, which does not exist, be what the file, directory or link `source` is; as `link_tree`."""
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    elif source.is_dir():
        link_tree(source, target)
    else:
        _link_or_copy(str(source), str(target))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove_directory(path: Path, root: Path, marks: Collection[str]) -> None:
    """Remove a directory so that a reader never sees a part of it; nothing happens if there is none.

    Args:
        path: the directory.
        root: that it must lie in, links resolved.
        marks: as in `commit_directory`.

    Raises:
        TfaipError: it lies elsewhere, or was not written by the toolkit.
    """
    if not os.path.lexists(path):
        _remove_tree(path.with_name(f"{TEMPORARY_PREFIX}{path.name}"))
        return
    if not path.resolve().is_relative_to(root.resolve()) or path.resolve() == root.resolve():
        raise TfaipError(f"{shorten_text(str(path), 160)} is not removed: it lies outside of {root}")
    _require_ours(path, marks)
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{path.name}")
    _remove_tree(temporary)
    os.rename(path, temporary)
    _remove_tree(temporary)


def remove_temporaries(directory: Path, is_own_name: Callable[[str], bool]) -> None:
    """Remove what a killed process left half-written in `directory` (not recursive).

    Args:
        directory: where it wrote.
        is_own_name: tells the names that it writes, without the prefix of temporary ones.
    """
    for entry in directory.glob(f"{TEMPORARY_PREFIX}*"):
        if is_own_name(final_name(entry)):
            _remove_tree(entry)


def final_name(path: Path) -> str:
    """Return the name without the prefixes of temporary ones."""
    name = path.name
    while name.startswith(TEMPORARY_PREFIX):
        name = name.removeprefix(TEMPORARY_PREFIX)
    return name


def _remove_tree(temporary: Path) -> None:
    """Remove what a temporary name stands for: a directory with its content, a file, or a link but not its target."""
    if not temporary.name.startswith(TEMPORARY_PREFIX):
        raise ValueError(f"{temporary} is no temporary name")
    if temporary.is_dir() and not temporary.is_symlink():
        shutil.rmtree(temporary)
    else:
        temporary.unlink(missing_ok=True)


def _move_over(source: Path, target: Path) -> None:
    if not target.exists():
        os.rename(source, target)
    elif not _exchange(source, target):
        # Without the system call there is a moment without `target`; a reader sees nothing, never a half.
        old = target.with_name(f"{TEMPORARY_PREFIX}{TEMPORARY_PREFIX}{target.name}")
        _remove_tree(old)
        os.rename(target, old)
        os.rename(source, target)
        _remove_tree(old)
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
            path = os.path.join(root, name)
            # Users may have put a pipe, which would be waited for, or a link that leads nowhere beside our files.
            if stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        _sync_directory(Path(root))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
