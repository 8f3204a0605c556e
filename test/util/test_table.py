"""Tables and values as text: aligned, bounded, one line."""

from __future__ import annotations

import fcntl
import io
import math
import os
import struct
import sys
import termios

import numpy as np
import pytest

from tfaip.scripts.runs import cell_texts
from tfaip.util.terminal import align_right, cut, is_terminal, print_table, terminal_width
from tfaip.util.text import number_text, shorten, shorten_text

HEADER, ROWS = ["", "値 [red]"], [["文字", "0.5"], ["a [/x] name", "10"]]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_are_aligned_and_drawn_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    print_table(HEADER, ROWS)
    lines = ["             値 [red]", "文字              0.5", "a [/x] name        10"]
    assert capsys.readouterr().out.splitlines() == lines
    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_table(HEADER, ROWS)
    for line in ("値 [red]", "│ 文字        │      0.5 │", "│ a [/x] name │"):  # brackets are no markup
        assert line in terminal.getvalue()


def test_cut_and_align() -> None:
    assert cut("3 more: a, b, c", 13) == "3 more: a,..."
    assert cut("3 more", 6) == "3 more"
    assert cut("文字誤り率の平均値", 10) == "文字誤..."  # three wide characters, and half of the next
    assert cut("e\u0301" * 4, 4) == "e\u0301" * 4  # combining accents take no columns
    assert align_right("値", 4) == "  値"


def test_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, width in (("120", 120), ("0", 80), ("wide", 80)):
        monkeypatch.setenv("COLUMNS", text)
        assert terminal_width() == width
    monkeypatch.delenv("COLUMNS")
    closed = io.StringIO()
    closed.close()
    # Captured; what programs put in the place of stdout: no file, closed, nothing.
    for stream in (sys.stdout, object(), closed, None):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            found = (is_terminal(), terminal_width())
        assert found == (False, 80)
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 97, 0, 0))
    with os.fdopen(slave, "w") as terminal, os.fdopen(master):
        monkeypatch.setattr(sys, "__stdout__", terminal)
        assert terminal_width() == 97
        monkeypatch.undo()


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_every_value_is_one_printable_line_of_bounded_length() -> None:
    values = ["x" * 10**7, list(range(10**6)), 10**5000, np.zeros(10**6), "a\nb\x1b[31m" * 50, {"k": "v" * 500}]
    for value in [*values, Broken()]:
        text = shorten(value)
        assert len(text) <= 80
        assert text.isprintable()
    assert "Broken" in shorten(Broken())
    assert [shorten(value) for value in ("three", [1, 2.5, None], True)] == ["'three'", "[1, 2.5, None]", "True"]
    assert shorten_text("a" * 30 + "b" * 30, 20) == "a" * 11 + "..." + "b" * 6
    assert shorten_text("first words, then " * 9 + "the last words", 27) == "first words, ... words"


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([0.123456, 100.0, 123456.75, 1e-7, 1e300], ["0.12346", "100.0", "123456.75", "1e-07", "1e+300"]),
        ([0.123456, 0.123457, 0.5], ["0.123456", "0.123457", "0.5"]),
        ([0.1, 0.1 + 2**-55], ["0.1", "0.10000000000000003"]),
        ([[0.123456, 1], {"a": 0.123456}, None, True], ["[0.123456, 1]", '{"a": 0.123456}', "null", "true"]),
        ([math.nan, math.nan, -math.inf], ["NaN", "NaN", "-Infinity"]),
        ([1, "1"], ["1", "1"]),
        ([], []),
    ],
)
def test_cells_of_a_column_tell_values_apart(values: list[object], texts: list[str]) -> None:
    assert cell_texts(values) == texts


def test_numbers_have_four_decimals() -> None:
    numbers = [0.35561, -0.0, math.nan, math.inf, 0.00012345678]
    assert [number_text(number) for number in numbers] == ["0.3556", "0.0000", "nan", "inf", "0.0001235"]
