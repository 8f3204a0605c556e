"""Some of the files of `fuzz_readers`, which runs for longer by hand; and what its findings look like."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.util.fuzz_readers import Target, make_examples, problem_of, stop

FILES = 25
# Of files that were findings once.
SEEDS = {"variables.index": [76711, 89965, 96708]}


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Stops a reader that does not come back."""
    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
def test_no_reader_fails_in_another_way(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    targets = make_examples(tmp_path / "good")
    for name, target in targets.items():
        target.read(target.directory)  # the good file
        problems = {seed: problem_of(target, seed, tmp_path) for seed in [*range(FILES), *SEEDS.get(name, [])]}
        assert {seed: problem for seed, problem in problems.items() if problem is not None} == {}, name
    assert len(targets) == 21


def test_findings(tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    (tmp_path / "good" / "numbers.json").write_text(json.dumps({"a": 1, "b": [2, 3]}))

    def read(directory: Path) -> int:
        return sum(json.loads((directory / "numbers.json").read_bytes())["b"])

    target = Target("numbers.json", read, tmp_path / "good")
    problems = [problem_of(target, seed, tmp_path) for seed in range(50)]
    kinds = {problem.partition(":")[0] for problem in problems if problem is not None}
    assert {"JSONDecodeError", "KeyError", "TypeError"} <= kinds
    assert (tmp_path / "good" / "numbers.json").read_text() == '{"a": 1, "b": [2, 3]}'
