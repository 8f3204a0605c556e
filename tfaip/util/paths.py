"""Checks on paths that users, config files and stored params name, before a file is touched."""

from __future__ import annotations

import os
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.util.text import shorten, shorten_text

# Everything is written under this prefix first; see `tfaip.util.files`.
TEMPORARY_PREFIX = ".tmp-"
# Limits of Linux file systems, in bytes.
MAX_NAME = 255
MAX_PATH = 4095


def path_problem(path: object) -> str | None:
    """Return why no file can have this path, as the end of a sentence; None: one can have it.

    A path that passes may still not exist, or be refused by the system (permissions).
    """
    if not isinstance(path, str | os.PathLike):
        return "is no path"
    text = os.fspath(path)
    if not text:
        return "is empty"
    if "\0" in text:
        return "holds a NUL character"
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        return "holds characters that no file name can hold"
    if len(encoded) > MAX_PATH:
        return f"is longer than {MAX_PATH} bytes"
    # Files are written under a longer name first.
    longest = MAX_NAME - 2 * len(TEMPORARY_PREFIX)
    if any(len(part) > longest for part in encoded.split(b"/")):
        return f"has a part of more than {longest} bytes"
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
    """Raise unless a file can be written to `path`; call it before the work that makes the content.

    Raises:
        UsageError: if no file can have the path, its directory does not exist or is not writable,
            or the path is not that of a regular file.
    """
    _require_possible(path)
    problem = None
    if not path.parent.is_dir():
        problem = f"there is no directory {shorten_text(str(path.parent))}"
    elif path.is_dir():
        problem = "it is a directory"
    elif path.exists() and not path.is_file():
        problem = "it is no regular file"
    if problem is not None:
        raise UsageError(f"{shorten_text(str(path))} cannot be written: {problem}")
    require_creatable(path)


def require_directory(path: Path) -> None:
    """Raise unless `path` is a directory to create files in, or can become one.

    Raises:
        UsageError: if no directory can have the path, or there is no permission.
    """
    _require_possible(path)
    existing = path.absolute()
    while not os.path.lexists(existing):
        existing = existing.parent
    if not existing.is_dir():
        raise UsageError(f"{shorten_text(str(path))} cannot be written: {shorten_text(str(existing))} is no directory")
    require_creatable(existing / "file")


def _require_possible(path: Path) -> None:
    problem = path_problem(path)
    if problem is not None:
        raise UsageError(f"{shorten(str(path))} cannot be written: the path {problem}")


def require_creatable(path: Path) -> None:
    """Raise unless entries can be created in the parent of `path`.

    Raises:
        UsageError: if there is no permission.
    """
    if not os.access(path.parent, os.W_OK | os.X_OK):
        shown = shorten_text(str(path))
        raise UsageError(f"{shown} cannot be written: no permission to create files in {path.parent}")
