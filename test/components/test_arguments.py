"""Constructors that ask for the data."""

from __future__ import annotations

from typing import Any

import pytest

from tfaip.util.construction import takes


class Explicit:
    def __init__(self, params: Any, data: Any) -> None: ...


class Keyword:
    def __init__(self, params: Any, *, data: Any = None) -> None: ...


class Inherits(Explicit):
    pass


class PassesOn(Explicit):
    def __init__(self, params: Any, **kwargs: Any) -> None: ...


class Hides(Explicit):
    def __init__(self, params: Any) -> None: ...


class Swallows:
    def __init__(self, params: Any, **kwargs: Any) -> None: ...


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Explicit, True),
        (Keyword, True),
        (Inherits, True),
        (PassesOn, True),
        (Hides, False),
        (Swallows, False),
        (object, False),
    ],
)
def test_a_constructor_that_names_the_data_takes_them(cls: type, expected: bool) -> None:
    assert takes(cls, "data") is expected
