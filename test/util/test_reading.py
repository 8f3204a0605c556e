"""Files are opened only if they are regular and not too large; JSON is bounded, zip files do not expand."""

import copy
import os
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tfaip.errors import UsageError
from tfaip.predict.samplefile import read_lines
from tfaip.util.reading import (
    MAX_DEPTH,
    MIB,
    is_shallow,
    open_file,
    open_stored,
    parse_json,
    parse_whole_number,
    read_bytes,
    read_json,
    read_text,
    require_regular_files,
)


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def make_directory(path: Path) -> None:
    path.mkdir()


def make_circle(path: Path) -> None:
    path.symlink_to(path)


def make_huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)  # takes no space


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (make_pipe, "it is a pipe or device, not a regular file"),
        (make_endless, "it is a pipe or device, not a regular file"),
        (make_directory, "it is a directory, not a regular file"),
        (make_circle, "Too many levels of symbolic links"),
        (make_huge, "it has more than 16 MiB"),
        (lambda path: None, "No such file or directory"),
    ],
)
def test_what_is_not_a_file_of_limited_size_is_refused(
    make: Callable[[Path], None], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make(Path("file"))
    with pytest.raises(OSError, match=reason):
        read_bytes("file")
    with pytest.raises(UsageError, match=rf"^file: cannot be read \({reason}") as caught:
        read_text(Path("file"))
    assert len(str(caught.value)) < 300
    for name in ["a\0b", "a" * 10_000, "/" + "b/" * 5000]:  # that no file can have
        with pytest.raises(UsageError, match=r"cannot be read \(") as caught:
            read_text(name)
        assert len(str(caught.value)) < 300


def test_a_good_file_behind_a_link(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="it is larger than it says"):  # 0 bytes
        read_bytes("/proc/self/status")
    (tmp_path / "file").write_text("é")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_text(tmp_path / "link") == "é"
    (tmp_path / "file").write_text("é", encoding="utf-8-sig")
    assert read_text(tmp_path / "link") == "é"
    (tmp_path / "file").write_bytes(b"\xff")
    with pytest.raises(UsageError, match="link: is not a text file in UTF-8"):
        read_text(tmp_path / "link")


def test_lines_of_limited_length(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"ab\nabcd\nabcde\n")
    with open_file(tmp_path / "file") as file:
        lines = read_lines(file, 5)
        assert [next(lines), next(lines)] == [b"ab\n", b"abcd\n"]
        with pytest.raises(ValueError, match="a line has more than"):
            next(lines)
    make_huge(tmp_path / "huge")
    tracemalloc.start()
    with open_file(tmp_path / "huge") as file, pytest.raises(ValueError, match="a line has more than 1 MiB"):
        next(read_lines(file, MIB))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * MIB


def test_directories_for_other_libraries(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("abc")
    assert require_regular_files(tmp_path) == 3
    make_pipe(tmp_path / "inner" / "pipe")
    with pytest.raises(OSError, match="pipe is a pipe or device, not a regular file"):
        require_regular_files(tmp_path)


def test_json_that_is_refused(subtests: pytest.Subtests) -> None:
    for text, reason in [
        ("", "broken JSON in line 1"),
        ("[1]", "expected a JSON object, got list"),
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "broken JSON: maximum recursion depth"),
        ('{"a": ' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}", "nested too deeply"),
        ('{"a": ' + "1" * 10_000 + "}", "broken JSON: Exceeds the limit"),
        ('{"a": [' + "0," * 8_000_000 + "0]}", "has more than 8000000 values"),
        ('{"' + "k" * 10_000 + '": 1, "' + "k" * 10_000 + '": 1}', "is given twice"),
    ]:
        with subtests.test(reason=reason):
            with pytest.raises(UsageError, match=f"^place: .*{reason}") as caught:
                parse_json(text, "place")
            assert len(str(caught.value)) < 300


def test_depth_is_that_of_lists_and_dicts(tmp_path: Path) -> None:
    for value, depth, expected in [(3, 0, True), ([], 1, True), ([], 0, False)]:
        assert is_shallow(value, depth) == expected
    assert [is_shallow({"a": [1, {}]}, depth) for depth in (3, 2)] == [True, False]
    depth = MAX_DEPTH - 1
    (tmp_path / "file").write_text('{"a": ' + "[" * depth + "]" * depth + "}")
    assert list(read_json(tmp_path / "file")) == ["a"]


def test_whole_numbers() -> None:
    for text, number in [("0", 0), ("17", 17), ("999999999", 999_999_999)]:
        assert parse_whole_number(text) == number
    for text in ("1000000000", "01", "1_0", "-1"):
        assert parse_whole_number(text) is None


def sharing(archive: zipfile.ZipFile) -> None:
    """Let three names share the content of the first member."""
    for number in (1, 2):
        member = copy.copy(archive.infolist()[0])
        member.filename = f"{number}.npy"
        archive.filelist.append(member)
        archive.NameToInfo[member.filename] = member
    archive._didModify = True


def claiming(archive: zipfile.ZipFile) -> None:
    archive.infolist()[0].file_size = archive.infolist()[0].compress_size = 10**6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda archive: None, None),
        (lambda archive: archive.writestr("packed", b"a", zipfile.ZIP_DEFLATED), "packed is compressed and may expand"),
        (sharing, "npy overlaps another member; what we write never does"),
        (claiming, "member claims to be larger than the file"),
    ],
)
def test_zip_files_that_could_expand_are_refused(
    change: Callable[[zipfile.ZipFile], None], message: str | None, tmp_path: Path
) -> None:
    path = tmp_path / "file.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("member", b"a" * 100)
        change(archive)
        archive._didModify = True
    if message is None:
        open_stored(path).close()
        path.write_bytes(b"nothing")
    with pytest.raises(zipfile.BadZipFile if message is None else ValueError, match=message):
        open_stored(path)
