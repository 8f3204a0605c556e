"""Jobs of a background thread, and collections of garbage that search only what is new."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from tfaip.errors import TfaipError
from tfaip.util.process import BackgroundWriter, collecting_new_objects


def fail(text: str) -> None:
    raise TfaipError(text)


def test_jobs_are_done_in_their_order_by_one_thread() -> None:
    done: list[int] = []
    threads: set[int] = set()
    begin = threading.Event()

    def job(number: int) -> None:
        begin.wait()
        threads.add(threading.get_ident())
        done.append(number)

    with BackgroundWriter() as writer:
        writer.wait()
        for number in range(5):
            writer.submit(partial(job, number))
        assert done == []
        begin.set()
        writer.wait()
        assert done == [0, 1, 2, 3, 4]
        writer.submit(partial(job, 5))
    assert done == [0, 1, 2, 3, 4, 5]
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_what_follows_a_failed_job_is_not_done() -> None:
    done: list[int] = []
    begin = threading.Event()
    with BackgroundWriter() as writer:
        writer.submit(begin.wait)
        writer.submit(partial(fail, "first"))
        writer.submit(partial(done.append, 1))
        writer.submit(partial(fail, "second"))
        writer.check()
        begin.set()
        for method in (writer.wait, writer.check, partial(writer.submit, partial(done.append, 2))):
            with pytest.raises(TfaipError, match="first"):
                method()
    assert done == []


def end_after(writer: BackgroundWriter, error: str) -> None:
    with writer:
        writer.submit(partial(fail, error))


def test_the_end_raises_what_was_not_raised_yet() -> None:
    writer = BackgroundWriter()
    with pytest.raises(TfaipError, match="late"):
        end_after(writer, "late")
    # It can be used again.
    done: list[int] = []
    with writer:
        writer.submit(partial(done.append, 1))
    assert done == [1]


def end_with_another_error(writer: BackgroundWriter) -> None:
    with writer:
        writer.submit(partial(fail, "beside another error"))
        raise ZeroDivisionError


def test_an_error_beside_another_one_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError):
        end_with_another_error(BackgroundWriter())
    assert caplog.messages == ["beside another error"]


class Node:
    """Refers to itself, so only a collection frees it."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def thawed() -> Iterator[None]:
    """Nothing is frozen; the tests have frozen what they have imported."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.slow
def test_only_new_garbage_is_freed_in_it_and_all_before_and_after(thawed: None) -> None:
    before, old = Node(), Node()
    references = [weakref.ref(before), weakref.ref(old)]
    del before
    with collecting_new_objects():
        assert [reference() is None for reference in references] == [True, False]
        assert gc.get_freeze_count() > 0
        new = Node()
        references.append(weakref.ref(new))
        del old, new
        gc.collect()
        assert [reference() is None for reference in references] == [True, False, True]
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert references[1]() is None
