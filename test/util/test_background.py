"""Jobs of a background thread."""

import threading
from functools import partial

import pytest

from tfaip.errors import TfaipError
from tfaip.trainer.run.output import RunOutput


def fail(text: str) -> None:
    raise TfaipError(text)


def test_jobs_are_done_in_their_order_by_one_thread() -> None:
    done: list[tuple[int, int]] = []
    begin = threading.Event()

    def job(number: int) -> None:
        begin.wait()
        done.append((number, threading.get_ident()))

    with RunOutput(None) as writer:
        writer.wait()
        for number in range(5):
            writer.submit(partial(job, number))
        assert done == []
        begin.set()
        writer.wait()
        assert [number for number, _ in done] == [0, 1, 2, 3, 4]
        writer.submit(partial(job, 5))
    assert done[-1][0] == 5
    assert len({thread for _, thread in done}) == 1
    assert threading.get_ident() != done[0][1]


def test_what_follows_a_failed_job_is_not_done() -> None:
    done: list[int] = []
    begin = threading.Event()
    with pytest.raises(TfaipError, match="first"), RunOutput(None) as writer:  # noqa: PT012 (its end raises it, too)
        for job in (begin.wait, partial(fail, "first"), partial(done.append, 1), partial(fail, "second")):
            writer.submit(job)
        writer.check()
        begin.set()
        for method in (writer.wait, writer.check, partial(writer.submit, partial(done.append, 2))):
            with pytest.raises(TfaipError, match="first"):
                method()
    assert done == []


def test_the_end_raises_what_was_not_raised_yet(caplog: pytest.LogCaptureFixture) -> None:
    writer = RunOutput(None)
    # It can be used again. An error beside another one is logged.
    for name, error, expected in [("late", None, TfaipError), ("beside another", KeyError(), KeyError)]:
        with pytest.raises(expected), writer:  # noqa: PT012
            writer.submit(partial(fail, name))
            if error is not None:
                raise error
    assert caplog.messages == ["beside another"]
