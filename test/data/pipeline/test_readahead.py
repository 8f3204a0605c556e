"""A thread that works ahead: nothing lost, nothing left behind. (That no thread stays, every test checks.)"""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from tfaip.data.pipeline.workerpool import prefetched


class Source:
    """Counts from 0 and says in which thread; an event per item tells that it was made."""

    def __init__(self, count: int, error: BaseException | None = None) -> None:
        self.made = [threading.Event() for _ in range(count)]
        self.threads: set[str] = set()
        self.error = error

    def __iter__(self) -> Iterator[int]:
        for number, event in enumerate(self.made):
            self.threads.add(threading.current_thread().name)
            event.set()
            yield number
        if self.error is not None:
            raise self.error


def test_the_next_items_are_made_while_the_reader_works_and_closing_ends_the_thread() -> None:
    source = Source(10)
    items = prefetched(iter(source), 2)
    assert next(items) == 0
    assert source.made[3].wait(10)  # two wait, one more is in hand
    assert not source.made[4].is_set()
    assert next(items) == 1
    assert source.made[4].wait(10)
    for count in (1, 0):
        assert [thread.name for thread in threading.enumerate()].count("tfaip-prefetch_0") == count
        items.close()
    assert list(items) == []


def test_an_error_comes_behind_the_items_before_it() -> None:
    error = ValueError("sample 2 is broken")
    with closing(prefetched(iter(Source(2, error)), 5)) as items:
        assert [next(items), next(items)] == [0, 1]
        with pytest.raises(ValueError, match="sample 2 is broken") as caught:
            next(items)
        assert caught.value is error
        assert list(items) == []
