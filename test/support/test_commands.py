"""The helper that runs commands: results, timeouts, and processes that outlive their command."""

from __future__ import annotations

import pytest

from test.support.commands import finish_command, start_python


def test_a_process_that_hangs_is_killed() -> None:
    process = start_python("-c", "import signal; print('started', flush=True); signal.pause()")
    with pytest.raises(AssertionError, match=r"did not end within 0\.5 s\nrc -9"):
        finish_command(process, timeout_s=0.5)


def test_a_process_that_leaves_a_child_behind_fails() -> None:
    code = (
        "import subprocess, sys; off = subprocess.DEVNULL; "
        "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'], stdout=off, stderr=off)"
    )
    with pytest.raises(AssertionError, match="left processes behind"):
        finish_command(start_python("-c", code), grace_s=0.5)
