"""Which backend is chosen, and how quietly it is imported."""

from __future__ import annotations

import os
import sys

import pytest

from test.support.commands import CommandResult, finish_command, start_python
from tfaip.backend.environment import import_backend, quiet_stderr, select_backend
from tfaip.errors import UsageError


def run_code(code: str, **env: str) -> CommandResult:
    return finish_command(start_python("-c", code, env=env))


@pytest.mark.parametrize(("variable", "expected"), [("tensorflow", "tensorflow"), ("jax", "jax")])
def test_the_variable_decides(variable: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", variable)
    assert select_backend() == expected


def test_the_default_is_tensorflow_and_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "")
    monkeypatch.delenv("KERAS_BACKEND")
    assert select_backend() == "tensorflow"
    assert os.environ["KERAS_BACKEND"] == "tensorflow"


def test_other_backends_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    with pytest.raises(UsageError, match="KERAS_BACKEND is 'torch'; tfaip runs on tensorflow and jax: set one"):
        select_backend()


@pytest.mark.backend
def test_the_chosen_backend_is_imported() -> None:
    name = import_backend()
    import keras

    assert keras.backend.backend() == name == os.environ["KERAS_BACKEND"]


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


def test_a_backend_that_is_missing_is_named() -> None:
    code = """
import sys
sys.modules["jax"] = None  # as if it were not installed
from tfaip.errors import UsageError
from tfaip.backend.environment import import_backend
try:
    import_backend()
except UsageError as error:
    print(error)
"""
    result = run_code(code, KERAS_BACKEND="jax")
    assert result.stdout.startswith("the Keras backend 'jax' cannot be imported ("), result
    assert result.stdout.endswith("); install it, or set KERAS_BACKEND to another one\n")


def test_what_native_code_writes_is_held_back(capfd: pytest.CaptureFixture[str]) -> None:
    with quiet_stderr():
        os.write(2, b"chatter\n")
    os.write(2, b"behind\n")
    assert capfd.readouterr().err == "behind\n"


def test_what_was_held_back_is_shown_after_an_error(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with quiet_stderr():
            os.write(2, b"a library is missing\n")
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    sys.stderr.flush()
    os.write(2, b"behind\n")
    assert capfd.readouterr().err == "a library is missing\nbehind\n"


def test_debug_shows_everything(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TFAIP_LOG_LEVEL", "debug")
    with quiet_stderr():
        os.write(2, b"chatter\n")
    assert capfd.readouterr().err == "chatter\n"
