"""Values in messages: one line, bounded, whatever the value is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tfaip.util.text import cell_texts, number_text, shorten, shorten_text


def test_short_values_are_their_repr() -> None:
    assert shorten("three") == "'three'"
    assert shorten([1, 2.5, None]) == "[1, 2.5, None]"
    assert shorten(True) == "True"


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


def test_a_failing_repr_is_named() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert "Broken" in shorten(Broken())


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert shorten_text("a" * 30 + "b" * 30, 20) == "a" * 11 + "..." + "b" * 6


def test_cells_of_a_column_tell_values_apart() -> None:
    assert cell_texts([0.123456, 100.0, 123456.75, 1e-7, 1e300]) == ["0.12346", "100.0", "123456.75", "1e-07", "1e+300"]
    assert cell_texts([0.123456, 0.123457, 0.5]) == ["0.123456", "0.123457", "0.5"]
    assert cell_texts([0.1, 0.1 + 2**-55]) == ["0.1", "0.10000000000000003"]
    assert cell_texts([[0.123456, 1], {"a": 0.123456}, None, True, "x"]) == [
        "[0.123456, 1]",
        '{"a": 0.123456}',
        "null",
        "true",
        "x",
    ]
    assert cell_texts([math.nan, math.nan, -math.inf]) == ["NaN", "NaN", "-Infinity"]
    assert cell_texts([1, "1"]) == ["1", "1"]
    assert cell_texts([]) == []


def test_numbers_have_four_decimals() -> None:
    numbers = [0.35561, -0.0, math.nan, math.inf, 0.00012345678]
    assert [number_text(number) for number in numbers] == ["0.3556", "0.0000", "nan", "inf", "0.0001235"]
