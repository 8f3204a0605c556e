"""What is around a run: files of a user, with the check that none of them is touched, and a full disk."""

import contextlib
import hashlib
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path


def fill_beside(place: Path, run: Path) -> None:
    """Put into `place` what a run could mistake for its own files: names of all that it writes, and another run."""
    for name in ("best", "export", "train", "checkpoint", ".tmp-stuff", ".tmp-best", "epoch_0001", "epoch_0009"):
        (place / name).mkdir()
        (place / name / "thesis.tex").write_text(f"years of work in {name}")
    for name in ("history.json", "train.log", ".tmp-history.json", "epoch_0002"):
        (place / name).write_text(f"of a user: {name}")
    shutil.copytree(run, place / "other")
    shutil.copytree(run / "checkpoint" / "epoch_0001", place / "epoch_0003")
    (place / "link").symlink_to("other")


def contents(place: Path, without: str = "") -> dict[str, tuple[str, int, str]]:
    """Everything below `place` by its path: kind and mode, time of the last change, content."""
    found = {}
    for path in sorted(place.rglob("*")):
        name = path.relative_to(place)
        if name.parts[0] == without:
            continue
        status = path.lstat()
        if path.is_symlink():
            content = os.readlink(path)
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = ""
        found[str(name)] = (oct(status.st_mode), status.st_mtime_ns, content)
    return found


@contextlib.contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond 1000 bytes; the error has no file name, as that of a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
