"""Tables, curves and values as text: aligned, bounded, one line."""

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
from tfaip.util.chart import needs_log_scale, text_plot
from tfaip.util.terminal import align_right, cut, is_terminal, print_table, terminal_width
from tfaip.util.text import number_text, shorten, shorten_text

HEADER, ROWS = ["", "値"], [["文字", "0.5"], ["a [longer] name", "10"]]


def test_columns_are_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(HEADER, ROWS)
    lines = ["                  値", "文字             0.5", "a [longer] name   10"]
    assert capsys.readouterr().out.splitlines() == lines


def test_a_terminal_gets_a_drawn_table(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdout", terminal := Terminal())
    print_table(HEADER, ROWS)
    text = terminal.getvalue()
    assert "│ 文字            │ 0.5 │" in text
    assert "│ a [longer] name │" in text  # brackets are no markup
    print_table(["", "run [red]", "[/x]"], [["acc", "1", "2"]])
    assert "run [red]" in terminal.getvalue()
    assert "[/x]" in terminal.getvalue()


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


def test_a_falling_line() -> None:
    plot = text_plot({"rate": [(0, 3.0), (1, 2.0), (2, 1.0)]}, width=5, height=3)
    assert plot.splitlines() == ["3 |*", "  |  *", "1 |    *", "  +-----", "   0   2"]


def test_several_curves_have_a_legend_and_the_first_lies_above() -> None:
    plot = text_plot({"a": [(1, 1.0), (3, 1.0)], "b": [(1, 1.0), (3, 2.0)]}, width=3, height=2)
    assert plot.splitlines() == ["2 |  o", "1 |* *", "  +---", "   1 3", "* a   o b"]


def test_factors_where_a_line_would_lie_on_the_ground() -> None:
    points = [(0, 1.0), (1, 0.01), (2, 0.0001)]
    assert needs_log_scale([y for _, y in points])
    assert text_plot({"a": points}, width=3, height=3).splitlines()[1] == "       | *"
    assert not needs_log_scale([1.0, 0.5, 0.0001])
    assert not needs_log_scale([1.0, 0.01, 0.0])


def test_constant_and_empty_curves() -> None:
    assert text_plot({"a": [(1, 2.0)]}, width=3, height=2).splitlines() == ["  |", "2 |*", "  +---", "   1 1"]
    assert text_plot({"a": []}) == "(nothing to plot)"


def test_differences_that_have_no_room_in_a_float() -> None:
    plot = text_plot({"a": [(1, -1.7e308), (2, 0.0), (3, 1.7e308)]}, width=3, height=3)
    assert [line.split("|")[1] for line in plot.splitlines()[:3]] == ["  *", " *", "*"]


def test_every_curve_has_a_mark_of_its_own() -> None:
    plot = text_plot({str(i): [(i, float(i))] for i in range(9)}, width=9, height=9)
    legend = plot.splitlines()[-1].split("   ")
    assert [entry.split()[1] for entry in legend] == [str(i) for i in range(9)]
    marks = [entry.split()[0] for entry in legend]
    assert len(set(marks)) == 9
    assert [line.split("|")[1].strip() for line in plot.splitlines()[:9]] == marks[::-1]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("x" * 10**7, id="text"),
        pytest.param(list(range(10**6)), id="list"),
        pytest.param(10**5000, id="integer"),
        pytest.param(np.zeros(10**6), id="array"),
        pytest.param("a\nb\x1b[31m" * 50, id="control"),
        pytest.param({"k": "v" * 500}, id="dict"),
    ],
)
def test_every_value_is_one_printable_line_of_bounded_length(value: object) -> None:
    text = shorten(value)
    assert len(text) <= 80
    assert text.isprintable()


def test_short_values_are_their_repr_and_a_failing_one_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert [shorten(value) for value in ("three", [1, 2.5, None], True)] == ["'three'", "[1, 2.5, None]", "True"]
    assert "Broken" in shorten(Broken())


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert shorten_text("a" * 30 + "b" * 30, 20) == "a" * 11 + "..." + "b" * 6
    assert shorten_text("first words, then " * 9 + "the last words", 27) == "first words, ... words"


def test_cells_of_a_column_tell_values_apart() -> None:
    assert cell_texts([0.123456, 100.0, 123456.75, 1e-7, 1e300]) == ["0.12346", "100.0", "123456.75", "1e-07", "1e+300"]
    assert cell_texts([0.123456, 0.123457, 0.5]) == ["0.123456", "0.123457", "0.5"]
    assert cell_texts([0.1, 0.1 + 2**-55]) == ["0.1", "0.10000000000000003"]
    mixed = ["[0.123456, 1]", '{"a": 0.123456}', "null", "true", "x"]
    assert cell_texts([[0.123456, 1], {"a": 0.123456}, None, True, "x"]) == mixed
    assert cell_texts([math.nan, math.nan, -math.inf]) == ["NaN", "NaN", "-Infinity"]
    assert cell_texts([1, "1"]) == ["1", "1"]
    assert cell_texts([]) == []


def test_numbers_have_four_decimals() -> None:
    numbers = [0.35561, -0.0, math.nan, math.inf, 0.00012345678]
    assert [number_text(number) for number in numbers] == ["0.3556", "0.0000", "nan", "inf", "0.0001235"]
