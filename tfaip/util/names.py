"""Checks on paths that users, config files and stored params name, before a file is touched."""

from __future__ import annotations

import os

# Everything is written under this prefix first; see `tfaip.util.files`.
TEMPORARY_PREFIX = ".tmp-"
# Limits of Linux file systems, in bytes.
MAX_NAME = 255
MAX_PATH = 4095


def path_problem(path: object) -> str | None:
    """Return why no file can have this path, as the end of a sentence; None: one can have it.

    A path that passes may still not exist, or be refused by the system for other reasons (permissions).
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
    """Return why `name` cannot be that of one file or directory of our own, as `path_problem` does."""
    problem = path_problem(name)
    if problem is not None:
        return problem
    text = str(name)
    if "/" in text or text in (".", ".."):
        return "is no plain name"
    if not text.isprintable():
        return "holds characters that cannot be printed"
    if text.startswith(TEMPORARY_PREFIX):
        return f"begins with {TEMPORARY_PREFIX}, as files that are not complete do"
    return None
