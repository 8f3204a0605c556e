"""Every way in which a worker can fail: reported soon, by name, and nothing is left behind (see `_no_leaks`)."""

import logging
import os
import signal
import time
from typing import Any

import pytest

from test.data.faults import (
    FaultParams,
    FilesParams,
    OddError,
    OnlyHereParams,
    SlowParams,
    Unsendable,
)
from test.data.support import batch_ids, make_pipeline, rows
from test.support.leaks import child_processes
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import WorkerTraceback
from tfaip.data.pipeline.workerpool import WorkerDied
from tfaip.errors import TfaipError

# What a machine that runs other tests needs to start a process, read a message and look at it. Without a report the
# faults last an hour, and a worker that does not start is given up after a minute.
REPORTED_WITHIN_S = 40.0


def make(processor: Any, source: Any = None, **params: Any) -> DataPipeline:
    """One pass over rows 0 .. 39 in order, batches of 4, by one worker."""
    params = {"num_processes": 1, "batch_size": 4, "mode": "evaluation", **params}
    return make_pipeline(FilesParams() if source is None else source, [processor], **params)


def ids(pipeline: DataPipeline) -> list[int]:
    return sum(batch_ids(pipeline), [])


WHERE = r"while it processed samples 8 to 11 of pass 0 \(in the data: 8, 9, 10, 11\)"


@pytest.mark.parametrize(
    ("processor", "source", "params", "message"),
    [
        (FaultParams(fault="kill"), None, {}, rf"was killed by SIGKILL \(was there enough memory\?\) {WHERE}$"),
        (FaultParams(fault="exit"), None, {}, f"ended with exit code 3 {WHERE}$"),
        (
            FaultParams(fault="stop"),
            None,
            {"worker_timeout_s": 3},
            f"has not finished a sample for 3 s {WHERE}",
        ),
        (
            FaultParams(fault="unpicklable"),
            None,
            {},
            rf"cannot send what processors put into samples .*{WHERE}: .*pickle",
        ),
        (OnlyHereParams(home=os.getpid()), None, {}, "could not start: RuntimeError: no licence"),
    ],
    ids=["kill", "exit", "stop", "not sent", "no start"],
)
def test_a_worker_that_fails_is_reported_with_what_it_did(
    processor: Any, source: Any, params: dict[str, Any], message: str
) -> None:
    begin = time.monotonic()
    with pytest.raises(WorkerDied, match=rf"^data worker 1 \(process \d+\) {message}") as info:
        ids(make(processor, source, **params))
    assert time.monotonic() - begin < REPORTED_WITHIN_S
    assert ("faults.py" in str(info.value.__cause__)) == ("could not start" in message)


def test_what_a_worker_logs_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    assert ids(make(FaultParams(fault="log", at=1), rows(4), batch_size=4)) == [0, 1, 2, 3]
    # On a busy machine the toolkit itself logs how long the worker took to start.
    logged = [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "user"]
    assert logged == [("WARNING", "line 0 %"), ("WARNING", "line 1 %")]


@pytest.mark.slow
def test_slow_samples_are_no_hang() -> None:
    # Blocks of 16 samples take 4 s, longer than the timeout; a worker that works says so every second.
    for processor, seconds in ((SlowParams(seconds=0.25), 0), (FaultParams(), 0.25)):
        source = FilesParams(count=16, seconds=seconds)
        assert ids(make(processor, source, worker_timeout_s=3, batch_size=16)) == list(range(16))


def test_a_worker_that_was_killed_while_idle() -> None:
    with make(FaultParams(), FilesParams(count=400)) as pipeline, pipeline.generate_input_batches() as batches:
        next(batches)
        (worker,) = child_processes()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerDied, match="was killed by SIGKILL"):
            list(batches)
        assert not child_processes()
        # The pipeline is not broken: it starts new workers.
        assert len(ids(pipeline)) == 400


@pytest.mark.parametrize("processes", [0, 1])
def test_an_exception_names_sample_processor_and_worker(processes: int, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ZeroDivisionError, match="bad pixel") as info:
        ids(make(FaultParams(fault="raise"), num_processes=processes))
    place, *worker = info.value.__notes__
    assert place.startswith("in Fault.apply, sample 11 of its pass: Sample(inputs={x: float64[3]}")
    assert "meta={id: 11" in place
    assert len(worker) == processes
    if processes:
        assert worker[0].startswith("in data worker 1 (process ")
        # The traceback is that of the worker: it shows the line that failed.
        assert isinstance(info.value.__cause__, WorkerTraceback)
        assert 'raise ZeroDivisionError("bad pixel")' in str(info.value.__cause__)
        assert "Traceback" not in caplog.text  # the error brings it along


@pytest.mark.parametrize(
    ("fault", "kind", "message", "here"),
    [
        ("breakpoint", RuntimeError, "which has no console: give num_processes 0", None),
        ("odd error", TfaipError, "^OddError: odd 7", OddError),  # it cannot be pickled
    ],
)
def test_what_fails_in_a_worker_is_an_error_of_the_sample(
    fault: str, kind: type[Exception], message: str, here: type[BaseException] | None
) -> None:
    with pytest.raises(kind, match=message) as info:
        ids(make(FaultParams(fault=fault)))
    assert info.value.__notes__[0].startswith("in Fault.apply, sample 11 of its pass: ")
    assert ids(make(FaultParams(fault=fault), on_error="skip")) == [index for index in range(40) if index != 11]
    if here is not None:  # in the training process only Ctrl-C ends it
        with pytest.raises(here):
            ids(make(FaultParams(fault=fault), num_processes=0))


def test_a_raw_sample_that_cannot_be_sent_is_an_error() -> None:
    samples = rows(3)
    samples[1].meta = lambda: None
    with pytest.raises((AttributeError, TypeError), match="pickle|local object") as info:
        ids(make(FaultParams(), samples))
    assert info.value.__notes__ == ["while raw samples were sent to a worker process; num_processes 0 works without"]


def test_params_that_cannot_be_sent_stay_here(caplog: pytest.LogCaptureFixture) -> None:
    with make(Unsendable()).generate_input_samples() as samples:
        assert {sample.meta.get("processed by", os.getpid()) for sample in samples} == {os.getpid()}
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "samples are processed in the training process, since no workers could be started" in record.message
    assert "cannot pickle" in record.message
