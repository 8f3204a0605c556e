"""From words to values."""

from __future__ import annotations

import math
from enum import Enum, IntEnum
from pathlib import Path
from typing import Any, Dict, List, Literal, Optional, Union  # noqa: UP035

import pytest

from tfaip.errors import UsageError
from tfaip.params.codec import Decoder, parse_words


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def test_words_of_every_type(subtests: pytest.Subtests) -> None:
    for words, declared, value in [
        (["-3"], int, -3),
        (["1e-3"], float, 0.001),
        (["-inf"], float, -math.inf),
        (["3"], str, "3"),
        (["None"], str, "None"),
        ([], bool, True),
        (["yes"], bool, True),
        (["TRUE"], bool, True),
        (["no"], bool, False),
        (["False"], bool, False),
        (["None"], Optional[int], None),  # noqa: UP045
        (["3"], int | None, 3),
        ([], bool | None, True),
        (["BLUE"], Color, Color.BLUE),
        (["2"], Level, Level.HIGH),
        (["1", "2", "3"], List[int], [1, 2, 3]),  # noqa: UP006
        (["a", "2"], list, ["a", 2]),
        (["red", "BLUE"], list[Color], [Color.RED, Color.BLUE]),
        (["1", "None"], list[int | None], [1, None]),
        (["a", "a"], set[str], {"a"}),
        (["1", "b"], tuple[int, str], (1, "b")),
        (["1", "2"], tuple[int, ...], (1, 2)),
        (["[1, 2]", "[]"], list[list[int]], [[1, 2], []]),
        (["a=1", "b=2.5"], Dict[str, float], {"a": 1.0, "b": 2.5}),  # noqa: UP006
        (["0.5=1"], dict[float, int], {0.5: 1}),
        (["a=[1]"], dict[str, list[int]], {"a": [1]}),
        (["3"], Union[int, str], 3),  # noqa: UP007
        (["3"], str | int, "3"),
        (["1", "2"], int | list[int], [1, 2]),
        (["3"], Any, 3),
        (["none"], Any, None),
        (["word"], Any, "word"),
        (["a"], Literal["a", 1], "a"),
        (["a/b"], Path, Path("a/b")),
    ]:
        with subtests.test(words=words):
            parsed = parse_words(words, declared, "--x")
            assert parsed == value
            assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("words", "declared", "message"),
    [
        (["1.0"], int, ": expected int, got '1.0'"),
        (["\udcff"], str, ": '\\udcff' holds NUL or is no UTF-8, which cannot be stored"),
        ([str(2**63)], int, ": expected an int of at most 64 bits, got 9223372036854775808"),
        (["maybe"], bool, ": expected True or False, got 'maybe'"),
        (["green"], Color, ": expected red | blue, got 'green'"),
        (["a"], int | float, ": expected int | float, got 'a'"),
        (["b"], Literal["a", 1], ": expected 'a' | 1, got 'b'"),
        ([], int, " needs a value: expected int"),
        (["1", "2"], int, " takes one value, got 2: 1 2"),
        (["1"], tuple[int, int], " takes 2 values, got 1: 1"),
        (["a"], dict[str, int], ": expected key=value, got 'a'"),
        (["a=b"], dict[str, int], " a: expected int, got 'b'"),
        (["a=1", "a=2"], dict[str, int], ": key 'a' is given twice"),
        (["0=1", "0.0=2"], dict[float, float], ": key 0.0 is given twice"),
        (["[1"], list[list[int]], ": expected list[int], got '[1'"),
        (["[1.5]"], list[list[int]], ".0: expected int, got 1.5"),
        (["9" * 400], int, ": expected an int of at most 64 bits, got <integer of 1329 bits>"),
        (["9" * 5000], int, f": expected int, got '{'9' * 50}"),
        (["1e400"], float, ": 1e400 is too large for a float"),
        (["1e400"], Any, ": 1e400 is too large for a float"),
        (["[" * 100_000], List[List[int]], ": the value is nested too deeply"),  # noqa: UP006
        (["k=1e400"], Dict[str, float], " k: 1e400 is too large for a float"),  # noqa: UP006
    ],
)
def test_wrong_words_are_one_short_line(words: list[str], declared: Any, message: str) -> None:
    with pytest.raises(UsageError) as error:
        parse_words(words, declared, "--x")
    text = str(error.value)
    assert text == f"--x{message}" or (text.startswith(f"--x{message}") and message.endswith("9") and len(text) < 300)


def test_keys_that_are_equal_as_numbers() -> None:
    with pytest.raises(UsageError, match=r"^points: key 0\.0 is given twice$"):
        Decoder().decode({"0": 1, "0.0": 2}, dict[float, float], "points")
