"""Some of the files of `fuzz_readers`; many of them in the series."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.util.fuzz_readers import make_examples, problem_of, stop

# Of files that were findings once.
SEEDS = {"variables.index": [76711, 89965, 96708]}


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Stops a reader that does not come back."""
    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("files", [25, pytest.param(1000, marks=pytest.mark.series)])
def test_no_reader_fails_in_another_way(files: int, tmp_path: Path) -> None:
    (tmp_path / "good").mkdir()
    targets = make_examples(tmp_path / "good")
    for name, target in targets.items():
        target.read(target.directory)  # the good file
        problems = {seed: problem_of(target, seed, tmp_path) for seed in [*range(files), *SEEDS.get(name, [])]}
        assert {seed: problem for seed, problem in problems.items() if problem is not None} == {}, name
    assert len(targets) == 21
