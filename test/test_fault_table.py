"""What the table of faults finds; `make test-all` makes the table."""

from __future__ import annotations

import pytest

from test.support.commands import CommandResult
from test.support.faultrows import ROWS, Expected, Row

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
