"""Some of the files of `fuzz_readers`; many of them in the series."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.util.fuzz_readers import make_examples, problem_of, stop


@pytest.fixture(autouse=True)
def alarm() -> Iterator[None]:
    """Stops a reader that does not come back."""
    before = signal.signal(signal.SIGALRM, stop)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("files", [25, pytest.param(1000, marks=pytest.mark.series)])
def test_no_reader_fails_in_another_way(files: int, tmp_path: Path) -> None:
    targets = make_examples(tmp_path)
    for file, read in targets:
        read(file)  # the good file
        problems = {seed: problem_of(file, read, seed) for seed in range(files)}
        assert {seed: problem for seed, problem in problems.items() if problem is not None} == {}, file
    assert len(targets) == 21
