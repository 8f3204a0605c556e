"""A refusal is one printable line, and how ends are judged; `fuzz_command_lines` gives every flag odd values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.fuzz.lines import MAINS
from test.support.fuzz.session import Place, complaints, run_here


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A watched working directory, in which the commands run."""
    place = Place(tmp_path / "place")
    place.fill()
    with place.entered():
        yield place


@pytest.mark.parametrize(
    ("scenario", "flags", "fragment"),
    [
        pytest.param(
            "test.support.tiny", ["--trainer.epochs", "x" * 5000], "epochs: expected int, got 'xxx", id="value"
        ),
        pytest.param("test.support.tiny", ["--" + "x" * 5000, "1"], "unknown flag --xxx", id="flag"),
        pytest.param("test.support.tiny", ["--device.gpus"] + ["1"] * 500, "gpus is [1", id="list"),
        pytest.param("d" * 400 + "/x", [], "name is too long", id="path"),
    ],
)
def test_a_refusal_is_one_printable_line(scenario: str, flags: list[str], fragment: str, place: Place) -> None:
    ended = run_here(MAINS["train"], [scenario, "--trainer.output_dir", "run", *flags])
    assert ended.rc == 2, ended
    assert complaints(ended, may_fail=False) == []
    assert fragment in ended.stderr


def test_a_long_error_of_a_library_keeps_its_beginning_and_its_end(place: Place) -> None:
    def fail(argv: object) -> None:
        raise RuntimeError("begin\n" + "\x1b[1m page\n" * 300 + "end")

    from tfaip.scripts.common.command import run_command

    ended = run_here(lambda argv: run_command(fail, argv), [])
    assert (ended.rc, complaints(ended, may_fail=True)) == (1, [])
    message, where = ended.stderr.splitlines()
    assert message.startswith("error: RuntimeError: begin page page ")
    assert message.endswith(" page end")
    assert where.startswith("  in ")
    assert where.endswith(" in fail (TFAIP_LOG_LEVEL=debug shows the traceback)")


def test_the_check_of_an_end_finds_what_is_wrong() -> None:
    def ended_with(text: str, rc: int = 2) -> list[str]:
        import sys

        return complaints(run_here(lambda argv: (sys.stderr.write(text), rc)[1], []), may_fail=False)

    assert ended_with("error: one line\n") == []
    assert ended_with("error: one line\n", rc=1) == ["exit code 1"]
    assert ended_with("error: " + "x" * 294 + "\n") == ["a message of 301 characters"]
    assert ended_with("error: one\nanother\n") == ["2 lines on stderr, 1 of them errors"]
    assert ended_with("error: \x1b[1m\n") == ["characters in the message that cannot be printed"]
    assert ended_with("something\n", rc=0) == ["something on stderr, but exit code 0"]
