"""Tables and values as text: aligned, bounded, one line."""

import math
import sys

import numpy as np
import pytest

from tfaip.util.terminal import align_right, cut, is_terminal, print_table, terminal_width
from tfaip.util.text import number_text, shorten, shorten_text

HEADER, ROWS = ["", "値 [red]"], [["文字", "0.5"], ["a [/x] name", "10"]]


def test_tables_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADER, ROWS)
    lines = ["             値 [red]", "文字              0.5", "a [/x] name        10"]
    assert capsys.readouterr().out.splitlines() == lines


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
    for stream in (sys.stdout, object()):  # captured; what programs put in the place of stdout
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            found = (is_terminal(), terminal_width())
        assert found == (False, 80)


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


def test_numbers_have_four_decimals() -> None:
    numbers = [0.35561, -0.0, math.nan, math.inf, 0.00012345678]
    assert [number_text(number) for number in numbers] == ["0.3556", "0.0000", "nan", "inf", "0.0001235"]
