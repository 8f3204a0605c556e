"""Files: checks of paths, and atomic writes. A file or directory under its final name is always complete.

Everything is written under a temporary name beside its destination, synced, and renamed. A process that is killed at
any moment leaves the old content, or the new one, and perhaps a temporary sibling that the next run removes.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import IO, Any

from tfaip.errors import TfaipError, UsageError
from tfaip.util.text import shorten, shorten_text

# Everything is written under this prefix first.
TEMPORARY_PREFIX = ".tmp-"
# Limits of Linux file systems, in bytes.
MAX_NAME, MAX_PATH = 255, 4095
# Arguments of renameat2(2).
_RENAME_EXCHANGE = 2
_AT_FDCWD = -100

# Temporary directories that `commit_directory` will sync as a whole: files in them need not wait for the disk before.
_synced_later: set[Path] = set()


@contextlib.contextmanager
def failures_named(path: Path) -> Iterator[None]:
    """Context of writing `path`: an error of the system (a full disk) becomes one that names it."""
    try:
        yield
    except OSError as error:
        reason, other = shorten_text(error.strerror or str(error)), ""
        name = str(error.filename or "")
        # A file elsewhere, from which the content is read.
        if name and TEMPORARY_PREFIX not in name and not Path(name).is_relative_to(path):
            other = f" ({shorten(name)})"
        # Users know the name that a directory will have.
        shown = str(path).replace(f"/{TEMPORARY_PREFIX}", "/")
        raise TfaipError(f"{shorten_text(shown, 160)} cannot be written: {reason}{other}") from error


@contextlib.contextmanager
def locked_directory(path: Path, taken: Exception) -> Iterator[None]:
    """Lock an existing directory until the block or the process ends; raise `taken` if another process locks it."""
    try:
        descriptor = _lock(path, fcntl.LOCK_EX)
    except BlockingIOError as error:
        raise taken from error
    except OSError as error:  # it is not there, or its file system has no locks
        raise UsageError(f"cannot lock the directory {shorten_text(str(path), 160)}: {error.strerror}") from error
    try:
        yield
    finally:
        os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Return True if a process has locked the directory; False also if that cannot be known."""
    try:
        os.close(_lock(path, fcntl.LOCK_SH))
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False


def _lock(path: Path, kind: int) -> int:
    """Return a descriptor that locks a directory."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:  # perhaps by a look of `is_locked`, which is over at once
            time.sleep(0.02)
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def commit_file(path: Path) -> Iterator[IO[bytes]]:
    """Yield a new file that becomes `path` when the block ends without an exception."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise TfaipError(f"{path} cannot be written: it is no regular file")
    temporary = _temporary(path)
    is_synced_later = not _synced_later.isdisjoint(path.parents)
    # Left by a process that was killed; a new file is never written through a link.
    temporary.unlink(missing_ok=True)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            if not is_synced_later:
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # a full disk, or Ctrl-C
        temporary.unlink(missing_ok=True)
        raise
    if not is_synced_later:
        _sync_directory(path.parent)


def write_bytes(path: Path, content: bytes) -> None:
    """Replace the content of the file `path` atomically."""
    with failures_named(path), commit_file(path) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    """Replace the content of the file `path` atomically by `text` (UTF-8); see `write_bytes`."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    """Replace the content of `path` atomically by `value` as JSON."""
    write_text(path, json.dumps(value, indent=2) + "\n")


@contextlib.contextmanager
def commit_directory(path: Path, marks: Collection[str] = ()) -> Iterator[Path]:
    """Yield an empty directory that becomes `path` when the block ends without an exception.

    An existing `path` is exchanged in one system call if the file system supports it.
    """
    temporary = _temporary(path)
    with failures_named(path):
        _require_ours(path, marks)
        _remove_tree(temporary)
        try:
            temporary.mkdir(parents=True)
            _synced_later.add(temporary)
            yield temporary
            sync_tree(temporary)
            # Once more: the content may have taken long to write.
            _require_ours(path, marks)
            _move_over(temporary, path)
        finally:
            _synced_later.discard(temporary)
            shutil.rmtree(temporary, ignore_errors=True)


def is_ours(path: Path, marks: Collection[str]) -> bool:
    """Return True for a directory (no link) that is empty or holds a file of one of the names `marks`.

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
    """Copy a directory as hard links to the same files, or as copies if there are no links.

    The files take no space, and are replaced but never changed. Symbolic links stay links.
    """
    shutil.copytree(source, target, symlinks=True, copy_function=link_or_copy, dirs_exist_ok=True)


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def remove_directory(path: Path, root: Path, marks: Collection[str]) -> None:
    """Remove a directory so that a reader never sees a part of it; do nothing if there is none."""
    if not os.path.lexists(path):
        _remove_tree(_temporary(path))
        return
    if path.resolve() == root.resolve() or not path.resolve().is_relative_to(root.resolve()):
        raise TfaipError(f"{shorten_text(str(path), 160)} is not removed: it is outside of {root}")
    _require_ours(path, marks)
    remove_entry(path)


def remove_entry(path: Path) -> None:
    """Remove a file, a link but not its target, or a directory, which has a temporary name meanwhile."""
    temporary = path if path.name.startswith(TEMPORARY_PREFIX) else _temporary(path)
    try:
        if temporary != path:
            _remove_tree(temporary)
            os.rename(path, temporary)
        _remove_tree(temporary)
    except OSError as error:
        reason = shorten_text(error.strerror or str(error))
        raise TfaipError(f"{shorten_text(str(path), 160)} cannot be removed: {reason}") from error


def remove_temporaries(directory: Path, is_own_name: Callable[[str], bool]) -> None:
    """Remove the incomplete files of a killed process from `directory` (not recursive)."""
    for entry in directory.glob(f"{TEMPORARY_PREFIX}*"):
        if is_own_name(final_name(entry)):
            _remove_tree(entry)


def final_name(path: Path) -> str:
    """Return the name without the prefixes of temporary ones."""
    return re.sub(f"^({re.escape(TEMPORARY_PREFIX)})+", "", path.name)


def _temporary(path: Path) -> Path:
    return path.with_name(f"{TEMPORARY_PREFIX}{path.name}")


def _remove_tree(temporary: Path) -> None:
    """Remove a temporary directory with its content, a file, or a link but not its target."""
    if temporary.is_dir() and not temporary.is_symlink():
        shutil.rmtree(temporary)
    else:
        temporary.unlink(missing_ok=True)


def _move_over(source: Path, target: Path) -> None:
    if not target.exists():
        os.rename(source, target)
    elif not _exchange(source, target):
        # Without the system call there is a moment without `target`, never an incomplete one.
        old = _temporary(_temporary(target))
        _remove_tree(old)
        os.rename(target, old)
        try:
            os.rename(source, target)
        except OSError:
            os.rename(old, target)
            raise
        _remove_tree(old)
    _sync_directory(target.parent)


def _exchange(a: Path, b: Path) -> bool:
    """Swap two paths atomically (Linux >= 3.15); return False if that is not supported, or fails."""
    try:
        renameat2 = ctypes.CDLL(None).renameat2
    except (AttributeError, TypeError):  # another libc, Windows
        return False
    return bool(renameat2(_AT_FDCWD, os.fsencode(a), _AT_FDCWD, os.fsencode(b), _RENAME_EXCHANGE) == 0)


def sync_tree(directory: Path) -> None:
    """Wait until the disk has all files below a directory."""
    for root, _, files in os.walk(directory):
        for name in files:
            path = os.path.join(root, name)
            # Users may have added pipes, whose opening waits, or broken links.
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


def path_problem(path: object) -> str | None:
    """Return why no file can have this path, as the end of a sentence; None: one can have it.

    A path that passes may still not exist, or be refused by the system (permissions).
    """
    try:
        encoded = os.fsencode(path)  # type: ignore[arg-type]
    except (TypeError, UnicodeEncodeError):
        return "is no path"
    if not encoded:
        return "is empty"
    if b"\0" in encoded:
        return "holds a NUL character"
    # Files are written under a longer name first.
    longest = MAX_NAME - 2 * len(TEMPORARY_PREFIX)
    if len(encoded) > MAX_PATH or any(len(part) > longest for part in encoded.split(b"/")):
        return f"has a part of more than {longest} bytes, or more than {MAX_PATH}"
    return None


def name_problem(name: object) -> str | None:
    """Return why `name` cannot name one file or directory of a run, as `path_problem` does."""
    problem = path_problem(name)
    if problem is not None:
        return problem
    text = str(name)
    if "/" in text or text in (".", ".."):
        return "is no plain name"
    if not text.isprintable():
        return "holds characters that cannot be printed"
    if text.startswith(TEMPORARY_PREFIX):
        return f"begins with {TEMPORARY_PREFIX}, as incomplete files do"
    return None


def require_writable(path: Path) -> None:
    """Raise unless a file can be written to `path`; call it before the work that makes the content."""
    _require_possible(path)
    problem = "it is no regular file" if path.exists() and not path.is_file() else None
    if not path.parent.is_dir():
        problem = f"there is no directory {shorten_text(str(path.parent))}"
    if problem is not None:
        raise UsageError(f"{shorten_text(str(path))} cannot be written: {problem}")
    _require_creatable(path)


def require_directory(path: Path) -> None:
    """Raise unless `path` is a directory to create files in, or can become one."""
    _require_possible(path)
    existing = path.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{shorten_text(str(path))} cannot be written: {shorten_text(str(existing))} is no directory")
    _require_creatable(existing / "file")


def _require_possible(path: Path) -> None:
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"{shorten(str(path))} cannot be written: the path {problem}")


def _require_creatable(path: Path) -> None:
    """Raise unless entries can be created in the parent of `path`."""
    if not os.access(path.parent, os.W_OK | os.X_OK):
        shown = shorten_text(str(path))
        raise UsageError(f"{shown} cannot be written: no permission to create files in {path.parent}")
