"""Processes: workers outlive signals to the group, but never the training process; they start when they are due."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
from multiprocessing.connection import Connection

import pytest

import tfaip.data.pipeline.executor as executor
from test.data.pipeline.workers.faults import SlowParams
from test.data.support import make_pipeline, rows
from test.support.commands import REPOSITORY, finish_command, start_python
from test.support.leaks import child_processes
from test.support.processes import command_line
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.worker import Start

# Both processors sleep in the second block, so that the workers are busy when the signals come.
SCRIPT = """
import os, signal, sys
from itertools import islice
from test.data.pipeline.workers.faults import FaultParams, FilesParams
from test.data.support import make_pipeline
from test.support.leaks import child_processes

received = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: received.append(number))
fault = FaultParams(fault=sys.argv[1], at=300)
pipeline = make_pipeline(FilesParams(count=400), [fault], num_processes=2, batch_size=4)
with pipeline.generate_input_batches(auto_repeat=False) as batches:
    next(batches)
    print(*child_processes(), flush=True)
    if sys.argv[1] == "sleep":
        list(batches)
    os.killpg(0, signal.SIGINT)
    os.killpg(0, signal.SIGTERM)
    print(len(list(batches)), [signal.Signals(number).name for number in received], len(child_processes()))
print(len(child_processes()))
"""


def test_signals_to_the_group_are_for_the_training_process() -> None:
    result = finish_command(start_python("-c", SCRIPT, "none"))
    assert (result.rc, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1:] == ["99 ['SIGINT', 'SIGTERM'] 2", "0"]


def test_workers_end_with_the_training_process_even_if_it_is_killed() -> None:
    process = start_python("-c", SCRIPT, "sleep")
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGKILL)
    finish_command(process)
    # `finish_command` waits for the group, and no test may leave shared memory.
    assert [command_line(pid) for pid in workers] == ["", ""]


def test_a_worker_ends_if_its_parent_had_ended_before_it_started() -> None:
    """Its connection stays open: a child of the parent may have it."""
    ours, theirs = socket.socketpair()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with ours, theirs:
        code = f"from tfaip.data.pipeline.worker import main; main({ended.pid}, {theirs.fileno()}, [])"
        worker = subprocess.Popen([sys.executable, "-c", code], pass_fds=[theirs.fileno()], cwd=REPOSITORY)
        assert worker.wait(60) == 0


def test_a_worker_that_nobody_listens_to_any_more_ends_without_a_word() -> None:
    """The training ends while the worker sends an answer: here the one that says why it cannot start."""
    ours, theirs = socket.socketpair()
    ours.shutdown(socket.SHUT_RD)
    with theirs, Connection(ours.detach()) as connection:
        code = f"from tfaip.data.pipeline.worker import main; main({os.getpid()}, {theirs.fileno()}, [])"
        command = [sys.executable, "-c", code]
        worker = subprocess.Popen(command, pass_fds=[theirs.fileno()], cwd=REPOSITORY, stderr=subprocess.PIPE)
        connection.send_bytes(pickle.dumps(Start("worker", None, b"not a spec", logging.INFO)))
        assert worker.communicate(timeout=60) == (None, b"")
    assert worker.returncode == 0


def test_default_workers_start_when_they_are_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "AUTOMATIC_START_S", 0.1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    def seen(processor: DataProcessorParams, **params: float) -> set[int]:
        """The numbers of workers that there were in one pass, or until they had made a block."""
        pipeline = make_pipeline(rows(100), [processor], mode=PipelineMode.EVALUATION, batch_size=2, **params)
        numbers = set()
        with pipeline.generate_input_batches() as batches:
            for _ in batches:
                numbers.add(len(child_processes()))
                stats = pipeline.worker_stats()
                if stats is not None and stats.blocks:
                    break
        return numbers

    assert seen(SlowParams(seconds=0.01)) == {0, 2}  # first none; then not 4, but as many as there are cores
    assert seen(SlowParams(seconds=0.01), num_processes=1) == {1}  # at once
    with monkeypatch.context() as patch:  # macOS
        patch.delattr(os, "sched_getaffinity")
        patch.setattr(os, "cpu_count", lambda: 1)
        assert seen(SlowParams(seconds=0.01)) == {0}
    # A sample takes too little time, however many there are. How long a really short one takes depends on what else
    # the machine does.
    monkeypatch.setattr(executor, "WORTHWHILE_S", 3600.0)
    assert seen(SlowParams(seconds=0.01)) == {0}
