"""Work on many items: in their order, in other processes, with the errors of the work."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import pytest

# Neither this module nor what it imports needs a backend: each worker would import it, ten seconds long.
from tfaip.compat.parallel import DataWorker, ParallelGenerator, parallel_map


def square_and_process(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


def refuse_three(number: int) -> int:
    if number == 3:
        raise ValueError("three is not wanted")
    return number


def test_items_are_processed_in_their_order_in_other_processes_or_here() -> None:
    results = parallel_map(square_and_process, range(20), processes=2)
    assert [square for square, _ in results] == [n * n for n in range(20)]
    processes = {process for _, process in results}
    assert os.getpid() not in processes
    assert 1 <= len(processes) <= 2
    assert parallel_map(lambda n: (n, os.getpid()), [3, 1], processes=0) == [(3, os.getpid()), (1, os.getpid())]
    assert parallel_map(square_and_process, [], processes=2) == []
    assert parallel_map(square_and_process, [2], processes=2) == [(4, os.getpid())]  # not worth a process


def test_the_error_of_the_work_is_raised() -> None:
    with pytest.raises(ValueError, match="three is not wanted") as caught:
        parallel_map(refuse_three, range(5), processes=1)
    assert any("data worker 1" in note for note in caught.value.__notes__)


def test_a_function_that_cannot_be_sent_runs_here_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("WARNING", logger="tfaip"):
        assert parallel_map(lambda n: n + 1, [1, 2], processes=2) == [2, 3]
    assert "no workers could be started" in caplog.text


class Adder(DataWorker):
    def __init__(self, plus: int) -> None:
        self.plus = plus
        self.calls: list[int] = []

    def setup(self) -> None:
        self.calls.append(-1)

    def process(self, item: int) -> tuple[int, int]:
        self.calls.append(item)
        return item + self.plus, self.calls[0]


class Sums(ParallelGenerator):
    def create_worker(self) -> DataWorker:
        return Adder(10)

    def generate_input(self) -> Iterable[Any]:
        return range(7)


@pytest.mark.parametrize("processes", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_worker_is_set_up_once_in_its_process(processes: int) -> None:
    sums = Sums(processes)
    assert list(sums) == [(n + 10, -1) for n in range(7)]
    assert list(sums) == [(n + 10, -1) for n in range(7)]  # a second pass
