"""Directories are written, replaced and removed as a whole, whatever happens meanwhile."""

import errno
import os
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python
from tfaip.errors import TfaipError
from tfaip.util.files import (
    TEMPORARY_PREFIX,
    commit_directory,
    link_tree,
    remove_directory,
    remove_temporaries,
    write_text,
)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_every_file_of_a_directory_is_synced_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    target = tmp_path / "model"
    with commit_directory(target) as directory:
        (directory / "plain").write_text("content")
        write_text(directory / "text", "content")
        assert synced == []
    everything = [target / "plain", target / "text", target, tmp_path]
    assert sorted(synced) == sorted(path.stat().st_ino for path in everything)
    synced.clear()
    write_text(target / "text", "new")
    assert synced == [path.stat().st_ino for path in (target / "text", target)]


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
    target = tmp_path / "run" / "model"
    (target.parent / f"{TEMPORARY_PREFIX}model" / "left").mkdir(parents=True)
    with commit_directory(target) as directory:
        assert names(directory) == []
        (directory / "file").write_text("old")
        assert not target.exists()
    with pytest.raises(RuntimeError, match="half way"), commit_directory(target, ["file"]) as directory:  # noqa: PT012
        (directory / "file").write_text("new")
        raise RuntimeError("half way")
    assert (target / "file").read_text() == "old"
    assert names(target.parent) == ["model"]


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
from tfaip.errors import TfaipError
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


@pytest.mark.parametrize("has_links", [True, False])
def test_a_tree_of_links_has_the_same_files(has_links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*paths: str) -> None:
        raise OSError(errno.EPERM, "no links here")

    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "a" / "sub" / "file").write_text("1")
    (tmp_path / "a" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a" / "to_pipe").symlink_to("pipe")
    if has_links:
        os.mkfifo(tmp_path / "a" / "pipe")  # it is neither waited for nor missed
    else:
        monkeypatch.setattr(os, "link", refuse)
    with commit_directory(tmp_path / "b") as directory:
        link_tree(tmp_path / "a", directory)
    assert (tmp_path / "a" / "sub" / "file").samefile(tmp_path / "b" / "sub" / "file") == has_links
    write_text(tmp_path / "a" / "sub" / "file", "2")  # replaced, not changed
    assert (tmp_path / "b" / "sub" / "file").read_text() == "1"
    assert (tmp_path / "b" / "link").is_symlink()
    assert not has_links or (tmp_path / "b" / "pipe").is_fifo()


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


def test_a_directory_is_removed_as_a_whole(tmp_path: Path) -> None:
    remove_directory(tmp_path / "a", tmp_path, ["mark"])  # there is none
    (tmp_path / "a" / "sub").mkdir(parents=True)
    (tmp_path / "a" / "mark").touch()
    (tmp_path / ".tmp-a").mkdir()  # left by a process that was killed
    remove_directory(tmp_path / "a", tmp_path, ["mark"])
    assert names(tmp_path) == []
