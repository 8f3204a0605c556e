"""Tables: aligned columns for programs, drawn on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from tfaip.util.terminal import print_table

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
