"""Help texts that are strings under the fields."""

from __future__ import annotations

import importlib
import linecache
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from test.support.commands import finish_command, start_python
from tfaip.params import ParamsBase, option
from tfaip.params.commandline import ParamsParser
from tfaip.params.fields import help_of, source_help


class Line(ParamsBase):
    """What a line looks like."""

    height: int = 16
    """Height of a line,
    in pixels"""
    alphabet: str = option("01", "Characters")
    """Not shown: the option says it already"""
    plain: int = 1
    f"not a {plain} constant"
    last: int = 2


class Higher(Line):
    height = 32
    """Height of a high line"""
    alphabet = "abc"
    last: int = 3
    """Of the subclass"""


class Again(Higher):
    height: int = 48


@dataclass
class Plain:
    x: int = 1
    """No params class"""


def made() -> type[Line]:
    class Line(ParamsBase):
        height: int = 1
        """Of another class with the same name"""

    return Line  # type: ignore[return-value]


def test_help_of_a_field(subtests: pytest.Subtests) -> None:
    for cls, name, text in [
        (Line, "height", "Height of a line, in pixels"),
        (Line, "alphabet", "Characters"),
        (Line, "plain", ""),
        (Line, "last", ""),
        (Higher, "height", "Height of a high line"),
        (Higher, "alphabet", "Characters"),
        (Higher, "last", "Of the subclass"),
        (Again, "height", "Height of a high line"),
        (Again, "alphabet", "Characters"),
        (made(), "height", "Of another class with the same name"),
        (Plain, "x", "No params class"),
    ]:
        with subtests.test(cls=cls):
            assert help_of(cls, name) == text


SOURCE = '''
"""A module that disappears."""
from tfaip.params import ParamsBase

class Gone(ParamsBase):
    x: int = 1
    """Help of x"""
'''


def parse(cls: type, *argv: str) -> Any:
    parser = ParamsParser("tfaip-test")
    parser.add_params("run", cls)
    return parser.parse(argv)


@pytest.fixture
def gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    path = tmp_path / "gone_module.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("gone_module").Gone
    yield cls, path
    del sys.modules["gone_module"]
    linecache.checkcache(str(path))


def test_the_source_is_read_for_help_only(gone: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cls, _ = gone
    read = source_help.cache_info().misses
    assert parse(cls, "--run.x", "3").run.x == 3
    assert source_help.cache_info().misses == read
    with pytest.raises(SystemExit):
        parse(cls, "--help")
    assert "  --run.x int = 1\n      Help of x.\n" in capsys.readouterr().out
    assert source_help.cache_info().misses == read + 1


@pytest.mark.parametrize(
    "source", [None, "class Gone(:", "\0", "class Gone:\n    pass\n" * 4, "(" * 100_000, "-" * 100_000 + "1"]
)
def test_no_help_and_no_error_without_the_source(
    gone: Any, source: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    cls, path = gone
    path.unlink()
    if source is not None:
        path.write_text(source)
    with pytest.raises(SystemExit):
        parse(cls, "--help")
    assert "  --run.x int = 1\n" in capsys.readouterr().out
    assert help_of(cls, "x") == ""


DECLARATION = "from tfaip.params import ParamsBase\nclass Here(ParamsBase):\n    x: int = 1\n    'Help of x'\n"
PRINT = "from tfaip.params.fields import help_of\nprint(repr(help_of(Here, 'x')), Here(2))\n"


def test_a_script_has_help_and_a_string_has_none(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DECLARATION + PRINT)
    run = finish_command(start_python(str(script)))
    assert run.stdout == "'Help of x' Here(x=2)\n", run
    run = finish_command(start_python("-c", DECLARATION + PRINT))
    assert run.stdout == "'' Here(x=2)\n", run
