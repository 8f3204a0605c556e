"""Records, outside of the runs, of the packages that the stored params of each run may name.

Stored params name classes and functions. The user has typed them when the training was started, so a resume need not
ask for them again. But a file must never bring its own permission: the records are in the user's state directory, one
small file per run, with the checksum of the stored params. A run that was copied, moved or edited has no record.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import TfaipError, UsageError
from tfaip.params.stored import from_dict, params_text
from tfaip.params.trust import UntrustedName
from tfaip.util import importpath
from tfaip.util.files import write_json
from tfaip.util.logging import logger
from tfaip.util.reading import DOCUMENT_BYTES, open_file, parse_json

if TYPE_CHECKING:
    from tfaip.components.loading import ScenarioClass

_MAX_BYTES = 2**16

log = logger(__name__)


@dataclass(frozen=True)
class Permission:
    """Names that are permitted in the stored params of a run, since the user has typed them.

    Args:
        packages: packages whose classes and functions may be named, besides tfaip and the scenario's own package.
        import_root: directory that the scenario was imported from; None: the user gave a module name.
        history_file: absolute path of a history outside of the run, which the run replaces; None: there is none.
    """

    packages: tuple[str, ...] = ()
    import_root: str | None = None
    history_file: str | None = None

    def and_trusted(self, packages: Iterable[str]) -> Permission:
        """Return a copy with further packages (`--trust`)."""
        return replace(self, packages=tuple(dict.fromkeys([*self.packages, *packages])))


def read_permission(params_file: Path) -> Permission:
    """Return the record of a run; an empty permission if there is none, or the file has changed since."""
    try:
        path = _record_of(params_file)
        owner = path.parent.stat()
        if owner.st_uid != os.geteuid() or owner.st_mode & 0o077:
            raise ValueError(f"other users may change what is in {path.parent}")
        record = parse_json(_read(path, _MAX_BYTES).decode(), "record")
        if record.get("run") != _run_of(params_file) or _checksum(params_file) not in record.get("params_sha256", ()):
            return Permission()
        packages, root, history_file = record["packages"], record["import_root"], record["history_file"]
        # A run that was stored there later must not become importable.
        is_usable = root is not None and os.path.isdir(root) and not importpath.is_stored(root)
        return Permission(tuple(packages), root if is_usable else None, history_file)
    except (OSError, ValueError, TypeError, LookupError, RuntimeError, AttributeError, UsageError) as error:
        log.debug("no record of what was typed for %s: %s", params_file, error)
        return Permission()


def record_permission(
    params_file: Path, params: Any, scenario: ScenarioClass, permission: Permission, is_resumed: bool = False
) -> None:
    """Record the packages that the params name, right before they are stored; do nothing if that is impossible."""
    try:
        packages: list[str] = []  # which must be trusted to read the params again
        while True:
            try:
                from_dict(type(params), params.to_dict(), trusted=[*scenario.declared_packages(), *packages])
                break
            except UntrustedName as error:
                if error.package in packages:
                    raise
                packages.append(error.package)
        path = _record_of(params_file)
        history_file = params.history_file and os.path.abspath(params.history_file)
        typed = Permission(tuple(packages), permission.import_root, history_file)
        if typed == Permission():
            path.unlink(missing_ok=True)
            return
        checksums = [_sha256(params_text(params, params_file.parent).encode())]
        if is_resumed:
            with contextlib.suppress(OSError, ValueError):
                checksums.append(_checksum(params_file))
        record = {"run": _run_of(params_file), "params_sha256": checksums, **asdict(typed)}
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_json(path, record)
    except (OSError, ValueError, TypeError, RuntimeError, TfaipError) as error:
        log.debug("what was typed for %s could not be recorded: %s", params_file, error)


def _run_of(params_file: Path) -> str:
    return str(params_file.parent.resolve())


def _record_of(params_file: Path) -> Path:
    """Return the file of the record; raise RuntimeError if the user has no home."""
    state = os.environ.get("XDG_STATE_HOME", "")
    directory = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return directory / "tfaip" / "runs" / f"{_sha256(os.fsencode(_run_of(params_file)))[:32]}.json"


def _checksum(path: Path) -> str:
    return _sha256(_read(path, DOCUMENT_BYTES))


def _sha256(content: bytes) -> str:
    import hashlib  # 4 ms, which `--help` need not wait for

    return hashlib.sha256(content).hexdigest()


def _read(path: Path, limit: int) -> bytes:
    with open_file(path, limit, follow_links=False) as file:  # a link could lead anywhere
        return file.read(limit)
