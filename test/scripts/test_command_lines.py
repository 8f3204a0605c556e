"""Odd values for every flag: refused with one line, or accepted; a few of those run; nothing is written elsewhere.

This is a seeded part; `python -m test.scripts.fuzz_command_lines` does more, and other ones with `--seed`.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.scripts.fuzz_command_lines import resolve_all, run, spread
from test.support.fuzz.lines import MAINS, command_lines, training_lines
from test.support.fuzz.session import Place, complaints, run_here
from test.support.trained import trained_tutorial

SEED = 11
SERIES = pytest.mark.series
LINES = {"training": training_lines, "other": command_lines}


@pytest.fixture
def place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A watched working directory with the run of a tutorial, in which the commands run."""
    stored = trained_tutorial(tmp_path_factory)
    place = Place(tmp_path / "place")
    place.fill(lambda directory: (shutil.copytree(stored, directory / "run"), None)[1])
    with place.entered():
        yield place


@pytest.fixture
def empty_place(tmp_path: Path) -> Iterator[Place]:
    """The same without the run."""
    place = Place(tmp_path / "place")
    place.fill()
    with place.entered():
        yield place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "runs"),
    [
        *(("training", 150, 2), ("other", 100, 1)),
        *(pytest.param("training", 1200, 6, marks=SERIES), pytest.param("other", 300, 3, marks=SERIES)),
    ],
)
def test_odd_values(kind: str, count: int, runs: int, place: Place) -> None:
    accepted, wrong = resolve_all(place, LINES[kind](SEED, count))
    assert wrong == []
    assert len(accepted) > count // 20  # odd, but not all of it impossible
    for line in spread(accepted, runs, random.Random(SEED)):  # noqa: S311
        ended, found = run(place, line)
        assert found == [], (line, ended)


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
def test_a_refusal_is_one_printable_line(scenario: str, flags: list[str], fragment: str, empty_place: Place) -> None:
    ended = run_here(MAINS["train"], [scenario, "--trainer.output_dir", "run", *flags])
    assert ended.rc == 2, ended
    assert complaints(ended, may_fail=False) == []
    assert fragment in ended.stderr


def test_a_long_error_of_a_library_keeps_its_beginning_and_its_end(empty_place: Place) -> None:
    def fail(argv: object) -> None:
        raise RuntimeError("begin\n" + "\x1b[1m page\n" * 300 + "end")

    from tfaip.scripts.common.command import run_command

    ended = run_here(lambda argv: run_command(fail, argv), [])
    assert (ended.rc, complaints(ended, may_fail=True)) == (1, [])
    message, place = ended.stderr.splitlines()
    assert message.startswith("error: RuntimeError: begin page page ")
    assert message.endswith(" page end")
    assert place.startswith("  in ")
    assert place.endswith(" in fail (TFAIP_LOG_LEVEL=debug shows the traceback)")


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
