"""From words to values."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Union  # noqa: UP035

import pytest

from tfaip.errors import UsageError
from tfaip.params.values.decoding import Decoder, parse_words


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


@pytest.mark.parametrize(
    ("words", "declared", "value"),
    [
        (["3"], int, 3),
        (["-3"], int, -3),
        (["1e-3"], float, 0.001),
        (["-inf"], float, -math.inf),
        (["3"], float, 3.0),
        (["3"], str, "3"),
        ([""], str, ""),
        (["None"], str, "None"),
        ([], bool, True),
        (["yes"], bool, True),
        (["1"], bool, True),
        (["TRUE"], bool, True),
        (["no"], bool, False),
        (["0"], bool, False),
        (["False"], bool, False),
        (["None"], Optional[int], None),  # noqa: UP045
        (["3"], int | None, 3),
        ([], bool | None, True),
        (["red"], Color, Color.RED),
        (["BLUE"], Color, Color.BLUE),
        (["2"], Level, Level.HIGH),
        (["LOW"], Level, Level.LOW),
        (["1", "2", "3"], List[int], [1, 2, 3]),  # noqa: UP006
        ([], list[int], []),
        (["a"], list[str], ["a"]),
        (["a", "2"], list, ["a", 2]),
        (["red", "BLUE"], list[Color], [Color.RED, Color.BLUE]),
        (["1", "None"], list[int | None], [1, None]),
        (["a", "a"], set[str], {"a"}),
        (["1", "b"], tuple[int, str], (1, "b")),
        (["1", "2"], tuple[int, ...], (1, 2)),
        (["[1, 2]", "[]"], list[list[int]], [[1, 2], []]),
        (["a=1", "b=2.5"], Dict[str, float], {"a": 1.0, "b": 2.5}),  # noqa: UP006
        (["0.5=1"], dict[float, int], {0.5: 1}),
        (["a=b=c"], dict[str, str], {"a": "b=c"}),
        (["a=[1]"], dict[str, list[int]], {"a": [1]}),
        (["a=1"], dict, {"a": 1}),
        (["3"], Union[int, str], 3),  # noqa: UP007
        (["3x"], int | str, "3x"),
        (["3"], str | int, "3"),
        (["1", "2"], int | list[int], [1, 2]),
        (["3"], Any, 3),
        (["3.5"], Any, 3.5),
        (["True"], Any, True),
        (["none"], Any, None),
        (["word"], Any, "word"),
        (["a"], Literal["a", 1], "a"),
        (["1"], Literal["a", 1], 1),
        (["a/b"], Path, Path("a/b")),
    ],
)
def test_words_of_every_type(words: list[str], declared: Any, value: Any) -> None:
    parsed = parse_words(words, declared, "--x")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("words", "declared", "message"),
    [
        (["a"], int, "--x: expected int, got 'a'"),
        (["1.0"], int, "--x: expected int, got '1.0'"),
        (["\udcff"], str, "--x: '\\udcff' holds NUL or is no UTF-8, which cannot be stored"),
        (["a", "b\0"], list[str], "--x: 'b\\x00' holds NUL or is no UTF-8, which cannot be stored"),
        ([str(2**63)], int, "--x: expected an int of at most 64 bits, got 9223372036854775808"),
        ([str(-(2**63) - 1)], list[int], "--x: expected an int of at most 64 bits, got -9223372036854775809"),
        (["a"], float, "--x: expected float, got 'a'"),
        (["None"], int, "--x: expected int, got 'None'"),
        (["maybe"], bool, "--x: expected True or False, got 'maybe'"),
        (["2"], bool, "--x: expected True or False, got '2'"),
        (["green"], Color, "--x: expected red | blue, got 'green'"),
        (["a"], int | None, "--x: expected int, got 'a'"),
        (["a"], int | float, "--x: expected int | float, got 'a'"),
        (["b"], Literal["a", 1], "--x: expected 'a' | 1, got 'b'"),
        ([], int, "--x needs a value: expected int"),
        (["1", "2"], int, "--x takes one value, got 2: 1 2"),
        (["1"], tuple[int, int], "--x takes 2 values, got 1: 1"),
        (["1", "b"], list[int], "--x: expected int, got 'b'"),
        (["a"], dict[str, int], "--x: expected key=value, got 'a'"),
        (["a=b"], dict[str, int], "--x a: expected int, got 'b'"),
        (["a=1", "a=2"], dict[str, int], "--x: key 'a' is given twice"),
        (["[1"], list[list[int]], "--x: expected list[int], got '[1'"),
        (["[1.5]"], list[list[int]], "--x.0: expected int, got 1.5"),
    ],
)
def test_wrong_words(words: list[str], declared: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_words(words, declared, "--x")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("words", "declared", "message"),
    [
        (["9223372036854775808"], int, "--x: expected an int of at most 64 bits, got 9223372036854775808"),
        (["9" * 400], int, "--x: expected an int of at most 64 bits, got <integer of 1329 bits>"),
        (["9" * 5000], int, "--x: expected int, got '99999"),
        (["1e400"], float, "--x: 1e400 is too large for a float"),
        (["-1" + "0" * 400], float, "--x: -10000"),
        (["1e400"], Any, "--x: 1e400 is too large for a float"),
        (["1", "1e400"], List[float], "--x: 1e400 is too large for a float"),  # noqa: UP006
        (["[" * 100_000], List[List[int]], "--x: the value is nested too deeply"),  # noqa: UP006
        (["k=1e400"], Dict[str, float], "--x k: 1e400 is too large for a float"),  # noqa: UP006
    ],
)
def test_numbers_and_nesting_beyond_bounds_are_one_line(words: list[str], declared: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_words(words, declared, "--x")
    assert str(error.value).startswith(message)
    assert len(str(error.value)) < 300


def test_keys_that_are_equal_as_numbers() -> None:
    with pytest.raises(UsageError, match=r"^points: key 0\.0 is given twice$"):
        Decoder().decode({"0": 1, "0.0": 2}, dict[float, float], "points")
    assert Decoder().decode({"0": 1, "0.5": 2}, dict[float, float], "points") == {0.0: 1.0, 0.5: 2.0}


def test_infinity_may_be_typed() -> None:
    assert parse_words(["-inf"], float, "--x") == -math.inf
    assert parse_words(["Infinity"], float, "--x") == math.inf
