"""The helpers of the tests: each kind of leak is seen, and a command that hangs is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from multiprocessing import shared_memory
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python
from test.support.leaks import find_leaks, take_snapshot


def test_thread_is_seen_until_it_ends() -> None:
    before = take_snapshot()
    done = threading.Event()
    thread = threading.Thread(target=done.wait, name="forgotten")
    thread.start()
    assert "thread 'forgotten'" in find_leaks(before, grace_s=0)
    done.set()
    thread.join()
    assert find_leaks(before) == []


@pytest.mark.skipif(sys.platform != "linux", reason="child processes are read from /proc")
def test_child_process_is_seen_with_its_command() -> None:
    before = take_snapshot()
    with subprocess.Popen(
        [sys.executable, "-c", "input('waits')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.read(1)  # it runs
        leaks = find_leaks(before, grace_s=0)
        child.communicate(b"\n")
    assert [leak for leak in leaks if leak.startswith(f"child process {child.pid}: {sys.executable} -c input")]
    assert find_leaks(before) == []


@pytest.mark.skipif(sys.platform != "linux", reason="segments are read from /dev/shm")
def test_shared_memory_is_seen_also_after_it_was_closed() -> None:
    before = take_snapshot()
    segment = shared_memory.SharedMemory(create=True, size=16)
    assert f"shared memory {segment.name}" in find_leaks(before, grace_s=0)
    segment.close()
    assert f"shared memory {segment.name}" in find_leaks(before, grace_s=0)
    segment.unlink()
    assert find_leaks(before) == []


def test_variable_handler_and_directory_are_seen(tmp_path: Path) -> None:
    before = take_snapshot()
    old_handler, old_directory = signal.getsignal(signal.SIGUSR1), Path.cwd()
    os.environ["TFAIP_TEST_LEAK"] = "1"
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.chdir(tmp_path)
    leaks = find_leaks(before, grace_s=0)
    del os.environ["TFAIP_TEST_LEAK"]
    signal.signal(signal.SIGUSR1, old_handler)
    os.chdir(old_directory)
    assert [leak.split(":")[0] for leak in leaks] == [
        "environment variable TFAIP_TEST_LEAK",
        "handler of SIGUSR1",
        "working directory",
    ]
    assert find_leaks(before) == []


def test_a_process_that_leaves_a_child_behind_fails() -> None:
    code = (
        "import subprocess, sys; off = subprocess.DEVNULL; "
        "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], stdout=off, stderr=off)"
    )
    with pytest.raises(AssertionError, match="left processes behind"):
        finish_command(start_python("-c", code), grace_s=0.5)
