"""Which backend is chosen, and how quietly it is imported."""

import contextlib
import os
import sys

import pytest

from test.support.commands import CommandResult, finish_command, start_python
from tfaip.backend.environment import quiet_stderr, select_backend
from tfaip.errors import UsageError


def run_code(code: str, **env: str) -> CommandResult:
    return finish_command(start_python("-c", code, env=env))


def test_the_variable_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tensorflow", "jax"):
        monkeypatch.setenv("KERAS_BACKEND", name)
        assert select_backend() == name
    monkeypatch.delenv("KERAS_BACKEND")
    assert select_backend() == "tensorflow"
    assert os.environ["KERAS_BACKEND"] == "tensorflow"  # the default is written down
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(UsageError, match="KERAS_BACKEND is 'torch'; tfaip runs on tensorflow and jax: set one"):
        select_backend()


@pytest.mark.slow
@pytest.mark.backend
def test_import_prints_nothing() -> None:
    result = run_code(
        "from tfaip.backend.environment import import_backend; print(import_backend())", TF_CPP_MIN_LOG_LEVEL="0"
    )
    assert (result.rc, result.stdout, result.stderr) == (0, f"{os.environ['KERAS_BACKEND']}\n", "")


@pytest.mark.slow
def test_jax_runs_without_tensorflow_and_collections_run_again() -> None:
    code = """
import gc, sys
from tfaip.backend import environment as backend
backend.import_backend()
print("tensorflow" in sys.modules, gc.isenabled(), gc.get_freeze_count())
"""
    assert run_code(code, KERAS_BACKEND="jax").stdout == "False True 0\n"


def test_what_native_code_writes_is_held_back_but_for_errors_and_debugging(capfd, monkeypatch) -> None:
    for level, error, shown in [("info", None, ""), ("info", ImportError, "chatter\n"), ("debug", None, "chatter\n")]:
        monkeypatch.setenv("TFAIP_LOG_LEVEL", level)
        with contextlib.suppress(ImportError), quiet_stderr():
            os.write(2, b"chatter\n")
            if error:
                raise error
        sys.stderr.flush()
        os.write(2, b"behind\n")
        assert capfd.readouterr().err == f"{shown}behind\n"
