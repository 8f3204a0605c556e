"""The lines of text files: where they end, which of them count, and files that change."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tfaip.data.generators.listsfile import TextLines


def expected_lines(content: bytes, ignore_prefix: str) -> tuple[list[str], int]:
    """The same by Python's own reader."""
    lines = [line.strip() for line in io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig")]
    return [line for line in lines if line and not (ignore_prefix and line.startswith(ignore_prefix))], len(lines)


PIECES = [
    "a",
    "bc d",
    " ",
    "\t",
    "#",
    ";;",
    "\n",
    "\r",
    "\r\n",
    "\x0c",
    "\x1c",
    "\x85",
    "ä",
    "\u2028",
    "\u3000",
    "😀",
    "\ufeff",
]


@given(
    st.lists(st.sampled_from(PIECES), max_size=30),
    st.sampled_from(["", "#", ";", "ä", " #"]),
    st.integers(1, 9),
    st.sampled_from([0, 10**6]),
)
def test_lines_are_those_that_python_reads(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[str], prefix: str, block_bytes: int, kept_bytes: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "pieces.txt"
    path.write_bytes("".join(pieces).encode())
    lines = TextLines(path, prefix, block_bytes, kept_bytes)
    assert (list(lines), lines.number_of_lines) == expected_lines(path.read_bytes(), prefix)


def test_positions_and_slices(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"one\n#\ntwo\nthree")
    lines = TextLines(path, "#")
    assert (len(lines), lines[1], lines[-1], lines[1:]) == (3, "two", "three", ["two", "three"])
    with pytest.raises(IndexError):
        _ = lines[3]


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"one\n" * 100 + b"\xff\n")
    with pytest.raises(UnicodeDecodeError):
        TextLines(path, block_bytes=16)


@pytest.mark.parametrize("change", ["longer", "shorter", "the same size"])
def test_a_large_file_that_changes_is_an_error_and_a_small_one_is_kept(change: str, tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("one\ntwo\n")
    os.utime(path, ns=(0, 0))
    small, large = TextLines(path), TextLines(path, kept_bytes=7)
    assert list(small) == list(large) == ["one", "two"]
    path.write_text({"longer": "one\ntwo\n\n", "shorter": "", "the same size": "two\none\n"}[change])
    assert list(small) == ["one", "two"]
    with pytest.raises(OSError, match=r"list.txt has changed while it was read: write a new file instead$"):
        _ = large[0]


def test_a_file_that_replaces_a_large_one_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("one\ntwo\n")
    lines = TextLines(path, kept_bytes=0)
    (tmp_path / "new.txt").write_text("three\n")
    os.replace(tmp_path / "new.txt", path)
    assert list(lines) == ["one", "two"]


def test_its_file_is_closed_with_it(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("one\n")
    before = len(os.listdir("/proc/self/fd"))
    kept, opened = TextLines(path), TextLines(path, kept_bytes=0)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del kept, opened
    assert len(os.listdir("/proc/self/fd")) == before
