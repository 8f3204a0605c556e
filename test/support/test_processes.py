"""The list of processes: what ends while it is read is left out, and what a thread started is found."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from test.support import processes
from test.support.leaks import child_processes
from test.support.processes import command_line, list_processes, memory_map

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are read from /proc")


def test_what_ended_after_it_was_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, line in {"12": "12 (a (b) c) S 1 7 7 0 -1", "13": None, "14": "", "x": None}.items():
        (tmp_path / name).mkdir()
        if line is not None:
            (tmp_path / name / "stat").write_text(line)
    monkeypatch.setattr(processes, "PROC", tmp_path)
    assert list(list_processes()) == [processes.Process(12, "S", 1, 7)]
    assert (command_line(13), memory_map(13)) == ("", "")


def test_the_child_of_a_thread_that_has_ended_is_found() -> None:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE))

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    (child,) = started
    with child:
        assert child.pid in child_processes()
        child.communicate(b"\n")
    assert child.pid not in child_processes()


def test_a_child_that_nobody_waited_for_is_found_as_such() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    (found,) = [process for process in list_processes() if process.pid == child.pid]
    assert (found.state, found.parent) == ("Z", os.getpid())
    child.wait()
