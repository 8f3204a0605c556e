"""Writes are commits: the old content, or the new one, never a half."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from test.support.beside import full_disk
from test.support.commands import REPOSITORY
from test.util.test_directories import names
from tfaip.errors import TfaipError, UsageError
from tfaip.util.files import (
    TEMPORARY_PREFIX,
    commit_directory,
    require_directory,
    require_writable,
    write_json,
    write_text,
)


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path, link = tmp_path / "a.json", tmp_path / f"{TEMPORARY_PREFIX}a.json"
    (tmp_path / "theirs").write_text("theirs")
    link.symlink_to(tmp_path / "theirs")  # which is not written through
    write_json(path, {"lr": 0.1, "values": [1, None]})
    assert (tmp_path / "theirs").read_text() == "theirs"
    text = path.read_text()
    assert json.loads(text) == {"lr": 0.1, "values": [1, None]}
    assert text.endswith("}\n")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half a surrogate \ud800")
    assert path.read_text() == text
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "directory"):
        with pytest.raises(TfaipError, match=f"{name} cannot be written: it is no regular file"):
            write_text(tmp_path / name, "text")
    assert names(tmp_path) == ["a.json", "directory", "pipe", "theirs"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("check", "name", "problem"),
    [
        (require_writable, "pipe", "it is no regular file"),
        (require_writable, "a" * 256, "the path has a part of more than 245 bytes"),
        (require_writable, "a\0b", "the path holds a NUL character"),
        (require_directory, "pipe/a", ".*pipe is no directory"),
    ],
)
def test_what_cannot_be_written_is_refused_in_time(
    check: Callable[[Path], None], name: str, problem: str, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=f"cannot be written: {problem}") as caught:
        check(tmp_path / name)
    assert len(str(caught.value)) <= 300
    for good in (tmp_path, tmp_path / "a/b"):
        require_directory(good)
    require_writable(tmp_path / "new")
    assert names(tmp_path) == ["pipe"]


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with full_disk():
        with pytest.raises(TfaipError, match=r"a\.json cannot be written: File too large$"):
            write_json(tmp_path / "a.json", "x" * 5000)
        with (
            pytest.raises(TfaipError, match="model cannot be written: File too large$"),
            commit_directory(tmp_path / "model") as directory,
        ):
            (directory / "weights").write_bytes(bytes(5000))
        # Nested: with the name that the file will have.
        with (
            pytest.raises(TfaipError, match=f"^{tmp_path}/model/params.json cannot be written: File too large$"),
            commit_directory(tmp_path / "model") as directory,
        ):
            write_json(directory / "params.json", "x" * 5000)
    assert names(tmp_path) == []


def test_a_file_that_cannot_be_read_is_named_beside_the_one_that_is_written(tmp_path: Path) -> None:
    with (
        pytest.raises(TfaipError, match=r"model cannot be written: No such file or directory \('.*words\.txt'\)"),
        commit_directory(tmp_path / "model") as directory,
    ):
        shutil.copyfile(tmp_path / "words.txt", directory / "words.txt")
    assert names(tmp_path) == []


def test_few_modules_remove_files() -> None:
    """Each of them removes what it has made itself, or checks what it removes; another one must do the same."""
    removal = re.compile(
        r"\brmtree\(|\bos\.(remove|unlink|rename|renames|replace|rmdir)\(|\.(unlink|rmdir)\(|path\.rename\("
    )
    sources = (REPOSITORY / "tfaip").rglob("*.py")
    found = {str(path.relative_to(REPOSITORY)) for path in sources if removal.search(path.read_text())}
    assert found == {
        "tfaip/util/files.py",
        "tfaip/trainer/run/directory.py",  # what a run wrote, when it is replaced
        "tfaip/trainer/run/permission.py",  # its own records, outside of all runs
        "tfaip/scripts/train.py",  # the empty directory that it has made for the run
        "tfaip/compat/logfiles.py",  # the log file that a program of 1.2 names, when it is to be replaced
    }
