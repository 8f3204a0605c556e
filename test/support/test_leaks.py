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

from test.support.leaks import find_leaks, take_snapshot


@pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc, segments from /dev/shm")
def test_each_kind_of_leak_is_seen_until_it_is_gone(tmp_path: Path) -> None:
    before, done = take_snapshot(), threading.Event()
    old_handler, old_directory = signal.getsignal(signal.SIGUSR1), Path.cwd()
    thread = threading.Thread(target=done.wait, name="forgotten")
    thread.start()
    # The first segment starts a process of the standard library, which is that program when the child runs.
    segment = shared_memory.SharedMemory(create=True, size=16)
    segment.close()
    child = subprocess.Popen([sys.executable, "-c", "input('waits')"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.read(1)  # it runs
    os.environ["TFAIP_TEST_LEAK"] = "1"
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.chdir(tmp_path)
    leaks = find_leaks(before, grace_s=0)
    del os.environ["TFAIP_TEST_LEAK"]
    signal.signal(signal.SIGUSR1, old_handler)
    os.chdir(old_directory)
    segment.unlink()
    child.communicate(b"\n")
    done.set()
    thread.join()
    expected = ["thread 'forgotten'", f"child process {child.pid}: {sys.executable} -c input"]
    expected += [
        f"shared memory {segment.name}",
        "environment variable TFAIP_TEST_LEAK: ",
        "handler of SIGUSR1: ",
        "working directory: ",
    ]
    assert len(leaks) == len(expected)
    assert all(leak.startswith(begin) for leak, begin in zip(leaks, expected, strict=True))
    assert find_leaks(before) == []
