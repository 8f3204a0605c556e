"""Writes are commits: the old content, or the new one, never a half."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, start_python
from tfaip.errors import TfaipError, UsageError
from tfaip.util import files
from tfaip.util.files import (
    TEMPORARY_PREFIX,
    commit_directory,
    link_tree,
    remove_directory,
    remove_temporaries,
    write_json,
    write_text,
)
from tfaip.util.paths import require_directory, require_writable


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def fail_half_way(target: Path, error: BaseException) -> None:
    with commit_directory(target, ["file"]) as directory:
        (directory / "file").write_text("new")
        raise error


def test_text_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "älter\n")
    write_text(path, "new")
    assert path.read_bytes() == b"new"
    assert names(tmp_path) == ["file.txt"]


def test_a_text_that_cannot_be_written_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    write_text(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half a surrogate \ud800")
    assert path.read_text() == "old"


def test_json_is_readable_and_ends_with_a_newline(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"lr": 0.1, "values": [1, None]})
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == {"lr": 0.1, "values": [1, None]}
    assert text.endswith("}\n")


def test_a_value_that_is_no_json_changes_nothing(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", 1)
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(tmp_path / "a.json", {"bad": object()})
    assert (tmp_path / "a.json").read_text() == "1\n"
    assert names(tmp_path) == ["a.json"]


def test_a_directory_appears_complete(tmp_path: Path) -> None:
    target = tmp_path / "run" / "model"
    with commit_directory(target) as directory:
        assert names(directory) == []
        (directory / "sub").mkdir()
        (directory / "sub" / "file").write_text("content")
        assert not target.exists()
    assert (target / "sub" / "file").read_text() == "content"
    assert names(target.parent) == ["model"]


def test_a_directory_is_replaced_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "model"
    for name in ("first", "second"):
        with commit_directory(target, ["first"]) as directory:
            (directory / name).write_text(name)
    assert names(target) == ["second"]
    assert names(tmp_path) == ["model"]


def test_the_old_directory_is_there_until_the_new_one_is(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with commit_directory(target) as directory:
        (directory / "file").write_text("old")
    opened = os.open(target, os.O_RDONLY)
    try:
        with commit_directory(target, ["file"]) as directory:
            (directory / "file").write_text("new")
            assert (target / "file").read_text() == "old"
        # Exchanged, not rewritten in place: who had the old one open does not see the new file in it.
        assert os.listdir(opened) == []
    finally:
        os.close(opened)
    assert (target / "file").read_text() == "new"


def test_an_exception_leaves_the_old_directory(tmp_path: Path) -> None:
    target = tmp_path / "model"
    with commit_directory(target) as directory:
        (directory / "file").write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        fail_half_way(target, RuntimeError("half way"))
    assert (target / "file").read_text() == "old"
    assert names(tmp_path) == ["model"]


def test_an_exception_leaves_nothing_where_nothing_was(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fail_half_way(tmp_path / "model", KeyboardInterrupt())
    assert names(tmp_path) == []


def test_exchange_swaps_two_directories(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    if not files._exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("the file system cannot exchange")
    assert (names(tmp_path / "a"), names(tmp_path / "b")) == (["b"], ["a"])
    assert not files._exchange(tmp_path / "a", tmp_path / "missing")


def test_a_leftover_of_a_killed_process_is_no_obstacle(tmp_path: Path) -> None:
    leftover = tmp_path / f"{TEMPORARY_PREFIX}model"
    leftover.mkdir()
    (leftover / "half").touch()
    with commit_directory(tmp_path / "model") as directory:
        (directory / "file").touch()
    assert names(tmp_path / "model") == ["file"]
    assert names(tmp_path) == ["model"]


def test_leftovers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / f"{TEMPORARY_PREFIX}model" / "sub").mkdir(parents=True)
    (tmp_path / f"{TEMPORARY_PREFIX}latest").touch()
    (tmp_path / "latest").touch()
    (tmp_path / "sub" / f"{TEMPORARY_PREFIX}deep").mkdir(parents=True)
    (tmp_path / f"{TEMPORARY_PREFIX}drafts").mkdir()  # has the prefix, but is no name of ours
    (tmp_path / f"{TEMPORARY_PREFIX}{TEMPORARY_PREFIX}model").symlink_to(tmp_path / "sub")
    remove_temporaries(tmp_path, ["model", "latest"].__contains__)
    assert names(tmp_path) == [f"{TEMPORARY_PREFIX}drafts", "latest", "sub"]
    assert names(tmp_path / "sub") == [f"{TEMPORARY_PREFIX}deep"]  # not recursive, and no link is followed
    remove_temporaries(tmp_path / "missing", ["model"].__contains__)


@pytest.mark.parametrize("moment", ["inside", "while moving"])
def test_a_killed_process_leaves_the_old_directory(moment: str, tmp_path: Path) -> None:
    target = tmp_path / "model"
    with commit_directory(target) as directory:
        (directory / "file").write_text("old")
    code = f"""
import os, signal
from pathlib import Path
from tfaip.errors import TfaipError, UsageError
from tfaip.util import files
kill = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
if {moment!r} == "while moving":
    files._move_over = kill
with files.commit_directory(Path({str(target)!r}), ["file"]) as directory:
    (directory / "file").write_text("new")
    if {moment!r} == "inside":
        kill()
"""
    assert finish_command(start_python("-c", code)).rc == -9
    assert (target / "file").read_text() == "old"
    assert names(tmp_path) == [f"{TEMPORARY_PREFIX}model", "model"]
    remove_temporaries(tmp_path, ["model"].__contains__)
    assert names(tmp_path) == ["model"]


def test_a_tree_of_links_has_the_same_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "a" / "sub" / "file").write_text("1")
    link_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / "sub" / "file").samefile(tmp_path / "b" / "sub" / "file")
    write_text(tmp_path / "a" / "sub" / "file", "2")  # replaced, not changed
    assert (tmp_path / "b" / "sub" / "file").read_text() == "1"


def test_where_there_are_no_links_files_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: str) -> None:
        raise OSError(errno.EPERM, "no links here")

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("1")
    monkeypatch.setattr(os, "link", refuse)
    link_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "file").read_text() == "1"
    assert not (tmp_path / "a" / "file").samefile(tmp_path / "b" / "file")


def test_a_link_in_a_tree_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "large").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a" / "broken").symlink_to(tmp_path / "nowhere")
    link_tree(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b" / "link").is_symlink()
    assert names(tmp_path / "b") == ["broken", "link"]


def test_what_is_no_file_is_neither_waited_for_nor_missed(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "link").symlink_to(tmp_path / "missing")
    (tmp_path / "source" / "to_pipe").symlink_to("pipe")
    os.mkfifo(tmp_path / "source" / "pipe")
    with commit_directory(tmp_path / "target") as directory:
        link_tree(tmp_path / "source", directory)
    assert (tmp_path / "target" / "link").is_symlink()
    assert (tmp_path / "target" / "pipe").is_fifo()


def test_a_directory_is_removed_as_a_whole(tmp_path: Path) -> None:
    remove_directory(tmp_path / "a", tmp_path, ["mark"])  # there is none
    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "a" / "mark").touch()
    (tmp_path / ".tmp-a").mkdir()  # left by a process that was killed
    remove_directory(tmp_path / "a", tmp_path, ["mark"])
    assert list(tmp_path.iterdir()) == []


def test_no_other_directory_is_replaced_or_removed(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    (theirs / "mark").mkdir(parents=True)  # not a file
    (tmp_path / "link").symlink_to(theirs)
    (tmp_path / "file").write_text("theirs")
    for name in ("theirs", "link", "file"):
        with pytest.raises(TfaipError, match=f"{name} is neither replaced nor removed: it is no directory that was"):
            remove_directory(tmp_path / name, tmp_path, ["mark"])
        with pytest.raises(TfaipError, match=f"{name} is neither"), commit_directory(tmp_path / name, ["mark"]):
            pytest.fail("written in vain")
    assert names(tmp_path) == ["file", "link", "theirs"]
    assert names(theirs) == ["mark"]


def test_a_directory_that_came_while_another_one_was_written_is_not_replaced(tmp_path: Path) -> None:
    target = tmp_path / "model"

    def write() -> None:
        with commit_directory(target, ["mark"]) as directory:
            (directory / "mark").touch()
            target.mkdir()
            (target / "thesis.tex").touch()

    with pytest.raises(TfaipError, match="model is neither"):
        write()
    assert names(target) == ["thesis.tex"]
    assert names(tmp_path) == ["model"]


@pytest.mark.parametrize("way_out", ["..", "../beside", ".", "link/marked"])
def test_nothing_is_removed_outside_of_the_root(way_out: str, tmp_path: Path) -> None:
    for directory in ("root", "beside", "other/marked"):
        (tmp_path / directory).mkdir(parents=True)
        (tmp_path / directory / "mark").touch()
    (tmp_path / "mark").touch()
    (tmp_path / "root" / "link").symlink_to(tmp_path / "other")
    with pytest.raises(TfaipError, match="is not removed: it is outside of .*root"):
        remove_directory(tmp_path / "root" / way_out, tmp_path / "root", ["mark"])
    assert names(tmp_path) == ["beside", "mark", "other", "root"]
    assert [names(tmp_path / name) for name in ("beside", "root", "other/marked")] == [
        ["mark"],
        ["link", "mark"],
        ["mark"],
    ]


def test_a_file_is_never_written_through_a_temporary_link(tmp_path: Path) -> None:
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / f"{TEMPORARY_PREFIX}a").symlink_to(tmp_path / "theirs")
    write_text(tmp_path / "a", "ours")
    assert (tmp_path / "theirs").read_text() == "theirs"
    assert (tmp_path / "a").read_text() == "ours"
    assert names(tmp_path) == ["a", "theirs"]


def test_only_a_file_is_replaced_by_a_text(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "directory").mkdir()
    for name in ("pipe", "directory"):
        with pytest.raises(TfaipError, match=f"{name} cannot be written: it is no regular file"):
            write_text(tmp_path / name, "text")
    assert names(tmp_path) == ["directory", "pipe"]
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("pipe", "it is no regular file"),
        ("a" * 256, "the path has a part of more than 245 bytes"),
        ("a/" * 2048, "the path is longer than 4095 bytes"),
        ("a\0b", "the path holds a NUL character"),
    ],
)
def test_a_file_that_cannot_be_written_is_refused_in_time(name: str, problem: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=f"cannot be written: {problem}") as caught:
        require_writable(tmp_path / name)
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    ("name", "problem"),
    [("pipe", "pipe is no directory"), ("pipe/a", "pipe is no directory"), ("a\0b", "the path holds a NUL character")],
)
def test_a_directory_that_cannot_be_written_is_refused_in_time(name: str, problem: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=f"cannot be written: .*{problem}"):
        require_directory(tmp_path / name)
    for good in (tmp_path, tmp_path / "a/b"):
        require_directory(good)
    assert names(tmp_path) == ["pipe"]


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file may grow beyond 1000 bytes; the error has no file name, as that of a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    with pytest.raises(TfaipError, match=r"a\.json cannot be written: File too large$"):
        write_json(tmp_path / "a.json", "x" * 5000)
    with (
        pytest.raises(TfaipError, match="model cannot be written: File too large$"),
        commit_directory(tmp_path / "model") as directory,
    ):
        (directory / "weights").write_bytes(bytes(5000))
    assert names(tmp_path) == []


def test_a_file_that_cannot_be_read_is_named_beside_the_one_that_is_written(tmp_path: Path) -> None:
    with (
        pytest.raises(TfaipError, match=r"model cannot be written: No such file or directory \('.*words\.txt'\)"),
        commit_directory(tmp_path / "model") as directory,
    ):
        shutil.copyfile(tmp_path / "words.txt", directory / "words.txt")
    assert names(tmp_path) == []


def test_a_system_without_locks_is_named(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules["fcntl"] = None  # as on Windows
from pathlib import Path
from tfaip.errors import TfaipError
from tfaip.util.files import locked_directory, write_text
write_text(Path({str(tmp_path)!r}) / "a", "text")
try:
    with locked_directory(Path({str(tmp_path)!r})):
        print("locked")
except TfaipError as error:
    print(error)
"""
    result = finish_command(start_python("-c", code))
    expected = "directories cannot be locked: this system has no fcntl; use Linux, macOS or WSL\n"
    assert (result.rc, result.stdout) == (0, expected), result
    assert names(tmp_path) == ["a"]


def test_few_modules_remove_files() -> None:
    """Each of them removes what it has made itself, or checks what it removes; another one must do the same."""
    removal = re.compile(r"\brmtree\(|\bos\.(remove|unlink|rename|renames|replace|rmdir)\(|\.(unlink|rmdir|rename)\(")
    sources = (REPOSITORY / "tfaip").rglob("*.py")
    found = {str(path.relative_to(REPOSITORY)) for path in sources if removal.search(path.read_text())}
    assert found == {
        "tfaip/util/files.py",
        "tfaip/trainer/run/removal.py",  # what a run wrote, when it is replaced
        "tfaip/export/modelwriting.py",  # a format in a directory that is not committed yet
        "tfaip/trainer/run/stagedirectories.py",  # the marker that a stage is done
        "tfaip/trainer/run/permission.py",  # its own records, outside of all runs
    }
