"""The helper that runs commands: results, timeouts, and processes that outlive their command."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.commands import REPOSITORY, finish_command, start_python


def test_result_of_a_process(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd(), os.environ['WORD']); print('oh', file=sys.stderr); sys.exit(3)"
    result = finish_command(start_python("-c", code, cwd=tmp_path, env={"WORD": "hello"}))
    assert (result.rc, result.stdout, result.stderr) == (3, f"{tmp_path} hello\n", "oh\n")


def test_the_package_is_found_from_any_directory(tmp_path: Path) -> None:
    result = finish_command(start_python("-c", "import tfaip; print(tfaip.__file__)", cwd=tmp_path))
    assert result.stdout.strip() == str(REPOSITORY / "tfaip" / "__init__.py")


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
