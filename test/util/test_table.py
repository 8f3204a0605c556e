"""Tables: aligned columns for programs, drawn on a terminal."""

from __future__ import annotations

import fcntl
import io
import os
import struct
import sys
import termios

import pytest

from tfaip.util.terminal import align_right, cut, is_terminal, print_table, terminal_width

HEADER, ROWS = ["", "value"], [["acc", "0.5"], ["a [longer] name", "10"]]


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADER, ROWS)
    assert capsys.readouterr().out.splitlines() == [
        "                 value",
        "acc                0.5",
        "a [longer] name     10",
    ]


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_table(HEADER, ROWS)
    text = terminal.getvalue()
    assert "│ acc             │   0.5 │" in text
    assert "│ a [longer] name │" in text  # brackets are no markup
    print_table(["", "run [red]", "[/x]"], [["acc", "1", "2"]])
    assert "run [red]" in terminal.getvalue()
    assert "[/x]" in terminal.getvalue()


def test_wide_characters_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["", "値"], [["文字", "0.5"], ["a", "10"]])
    assert capsys.readouterr().out.splitlines() == ["       値", "文字  0.5", "a      10"]


def test_cut_and_align() -> None:
    assert cut("3 more: a, b, c", 13) == "3 more: a,..."
    assert cut("3 more", 6) == "3 more"
    assert cut("文字誤り率の平均値", 10) == "文字誤..."  # three wide characters, and half of the next
    assert cut("e\u0301" * 4, 4) == "e\u0301" * 4  # combining accents take no columns
    assert align_right("値", 4) == "  値"


def test_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal_width() == 80  # captured output is no terminal
    for text, width in (("120", 120), ("0", 80), ("wide", 80)):
        monkeypatch.setenv("COLUMNS", text)
        assert terminal_width() == width
    monkeypatch.delenv("COLUMNS")
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 97, 0, 0))
    with os.fdopen(slave, "w") as terminal, os.fdopen(master):
        monkeypatch.setattr(sys, "__stdout__", terminal)
        assert terminal_width() == 97
        monkeypatch.undo()


def test_an_output_that_is_no_file_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As programs put it in the place of stdout, to write to two places."""

    class Tee:
        def write(self, text: str) -> int:
            return len(text)

    monkeypatch.delenv("COLUMNS", raising=False)
    closed = io.StringIO()
    closed.close()
    for stream in (Tee(), closed, None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            found = (is_terminal(), terminal_width())
        assert found == (False, 80)
