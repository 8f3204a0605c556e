"""Some rows of the table of faults, which `make series` makes as a whole, and what the table finds."""

from __future__ import annotations

import sys

import pytest

from test.support.commands import CommandResult, finish_command, start_python
from test.support.faultrows import ROWS, Expected, Row

EACH = [
    "60%",
    "read-only",
    "log: EIO",
    "clock: set back by a day in",
    "worker: KeyboardInterrupt in a sample",
    "validation: SIGTERM",
]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="mounts, and a shared object that is loaded first")
def test_a_row_of_each_kind() -> None:
    result = finish_command(start_python("-m", "test.fault_table", "--only", *EACH))
    assert result.rc == 0, result
    places = [line.split("|")[1].strip() for line in result.stdout.splitlines() if line.startswith("|")]
    assert places == ["place", "---", "log", "run directory", "run directory", "clock", "worker", "validation"]
    made = [line for line in result.stdout.splitlines() if line.endswith((" equal |", " equal, begun again |"))]
    left_out = [line for line in result.stdout.splitlines() if "| not made: " in line]
    assert len(made) + len(left_out) == len(EACH), result
    assert made, result


STOPS = Row("checkpoint", "EIO", Expected.STOPS, "cannot be written")
LINE = "error: a cannot be written\n"


@pytest.mark.parametrize(
    ("row", "result", "found"),
    [
        (STOPS, CommandResult(1, "", LINE), None),
        (STOPS, CommandResult(0, "", LINE), "ended otherwise than with exit code 1 and an error"),
        (STOPS, CommandResult(1, "", "error: b\n"), "did not print 'cannot be written'"),
        (STOPS, CommandResult(1, "Traceback (most", LINE), "printed a traceback"),
        (STOPS, CommandResult(1, "", LINE * 3), "printed more than an error"),
        (Row("log", "EIO", Expected.GOES_ON), CommandResult(0, "warning: a\n", "warning: b\n"), None),
        (Row("log", "EIO", Expected.GOES_ON), CommandResult(0, "", LINE), "printed more than an error"),
    ],
)
def test_what_is_not_as_expected_is_found(row: Row, result: CommandResult, found: str | None) -> None:
    differences = list(row.differences(result))
    assert len(differences) == (found is not None)
    assert all(text.startswith(found or "") for text in differences)


def test_rows_have_names_of_their_own() -> None:
    names = [(row.place, row.fault) for row in ROWS]
    assert len(set(names)) == len(names)
