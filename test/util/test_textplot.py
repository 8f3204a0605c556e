"""Curves as text."""

from __future__ import annotations

from tfaip.util.chart import needs_log_scale, text_plot


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
