"""Record, outside of a run, of what a user has permitted its stored params to name.

Stored params name classes and functions. They were typed when the training was started, so a resume need not ask for
them again. But a file must never bring its own permission: the record is in the user's state directory, one small file
per run, and holds the checksum of the params that were stored. A run that was copied, moved or edited has no record.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.serialization import from_dict, params_text, to_dict
from tfaip.params.trust import UntrustedName, top_package
from tfaip.util import importpath
from tfaip.util.logging import logger
from tfaip.util.names import TEMPORARY_PREFIX
from tfaip.util.reading import DOCUMENT_BYTES, open_file, parse_json

MAX_RECORDS = 1000
"""Number of runs with a record; of more, the record that was written first is removed."""
_MAX_BYTES = 2**16
_RECORD = re.compile(rf"[0-9a-f]{{32}}\.json|{re.escape(TEMPORARY_PREFIX)}\w+", re.ASCII)

log = logger(__name__)


@dataclass(frozen=True)
class Permission:
    """What the stored params of a run may name because the user has typed it.

    Args:
        packages: their classes and functions may be named, besides those of tfaip and of the scenario's own package.
        import_root: directory that the scenario was imported from, if the user gave its path; None: it was named.
        history_file: absolute path of a history outside of the run, which the run replaces; None: there is none.
    """

    packages: tuple[str, ...] = ()
    import_root: str | None = None
    history_file: str | None = None

    def and_trusted(self, packages: Iterable[str]) -> Permission:
        """Return the same with further packages (`--trust`)."""
        return replace(self, packages=tuple(dict.fromkeys([*self.packages, *packages])))


def read_permission(params_file: Path) -> Permission:
    """Return what is recorded for a run; nothing if there is no record, or not one of exactly this file.

    Args:
        params_file: the `trainer_params.json` of the run.
    """
    try:
        record = parse_json(_read_private(_record_of(params_file)), "record")
        if record.get("run") != _run_of(params_file) or _checksum(params_file) not in record.get("params_sha256", ()):
            return Permission()
        return _checked(record.get("packages"), record.get("import_root"), record.get("history_file"))
    except (OSError, ValueError, TypeError, RuntimeError, UsageError) as error:
        log.debug("no record of what was typed for %s: %s", params_file, error)
        return Permission()


def record_permission(
    params_file: Path, params: Any, scenario: type, permission: Permission, is_resumed: bool = False
) -> None:
    """Record what the params name, right before they are stored. Without a place for records nothing happens.

    Args:
        params_file: where they will be stored.
        params: all names in them were typed by the user, permitted before, or come from code that runs.
        scenario: class of the scenario.
        permission: `import_root` is recorded with them.
        is_resumed: the params that are stored now are those of the same run: they stay permitted, since the process may
            be killed before it stores the new ones.
    """
    try:
        packages = _needed_packages(params, top_package(scenario.__module__))
        path = _record_of(params_file)
        if not packages and permission.import_root is None and params.history_file is None:
            path.unlink(missing_ok=True)
            return
        checksums = [hashlib.sha256(params_text(params, params_file.parent).encode()).hexdigest()]
        if is_resumed:
            with contextlib.suppress(OSError, ValueError):
                checksums.append(_checksum(params_file))
        record = {
            "run": _run_of(params_file),
            "params_sha256": checksums,
            "packages": packages,
            "import_root": permission.import_root,
            "history_file": params.history_file and os.path.abspath(params.history_file),
        }
        _write_private(path, json.dumps(record, indent=2) + "\n")
        _forget_oldest(path.parent)
    except (OSError, ValueError, TypeError, RuntimeError, UsageError) as error:
        log.debug("what was typed for %s could not be recorded: %s", params_file, error)


def _needed_packages(params: Any, own: str) -> list[str]:
    """Return the packages that must be trusted to read the params again, by the rule that reads them."""
    needed: list[str] = []
    while True:
        try:
            from_dict(type(params), to_dict(params), trusted=[own, *needed])
            return needed
        except UntrustedName as error:
            if error.package in needed:
                raise
            needed.append(error.package)


def _checked(packages: Any, root: Any, history_file: Any) -> Permission:
    """Return what a record says, as far as it is of the right form."""
    if not isinstance(packages, list) or not all(isinstance(name, str) and name.isidentifier() for name in packages):
        raise ValueError("packages is no list of names")
    if root is not None and not (isinstance(root, str) and root.isprintable() and os.path.isabs(root)):
        raise ValueError("import_root is no absolute path")
    # A run that was put there later must not become importable by it.
    is_usable = root is not None and os.path.isdir(root) and not importpath.is_stored(root)
    if history_file is not None and not (isinstance(history_file, str) and os.path.isabs(history_file)):
        raise ValueError("history_file is no absolute path")
    return Permission(tuple(packages), root if is_usable else None, history_file)


def _run_of(params_file: Path) -> str:
    return str(params_file.parent.resolve())


def _record_of(params_file: Path) -> Path:
    """Return the file of the record; raises RuntimeError if the user has no home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    directory = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    name = hashlib.sha256(os.fsencode(_run_of(params_file))).hexdigest()[:32]
    return directory / "tfaip" / "runs" / f"{name}.json"


def _checksum(path: Path) -> str:
    return hashlib.sha256(_read(path, DOCUMENT_BYTES)[0]).hexdigest()


def _read_private(path: Path) -> str:
    """Read a file that only the user can have written."""
    content, status = _read(path, _MAX_BYTES)
    for found in (status, path.parent.stat()):
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError(f"{path} may be changed by other users")
    return content.decode()


def _read(path: Path, limit: int) -> tuple[bytes, os.stat_result]:
    with open_file(path, limit, follow_links=False) as file:  # a link could lead anywhere
        return file.read(limit), os.fstat(file.fileno())


def _write_private(path: Path, text: str) -> None:
    """Replace a file atomically, also where several processes do so."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.parent.chmod(0o700)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=TEMPORARY_PREFIX)  # mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _forget_oldest(directory: Path) -> None:
    ages: list[tuple[float, Path]] = []
    for path in directory.iterdir():
        with contextlib.suppress(FileNotFoundError):  # of another process
            if _RECORD.fullmatch(path.name):
                ages.append((path.lstat().st_mtime, path))
    for _, path in sorted(ages)[:-MAX_RECORDS]:
        path.unlink(missing_ok=True)
