"""Callbacks that the command line or the params name: called, built again by a resume, refused from a stored file."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from test.support.commands import finish_command, start_command
from test.support.runs import copy_tiny
from test.support.tiny.scenario import TinyScenario
from tfaip.errors import UsageError

CODE = """
import keras


class Tell(keras.callbacks.Callback):
    def __init__(self, scenario, params):
        super().__init__()
        self.text = f"{type(scenario).__name__} of {params.epochs}"

    def on_epoch_end(self, epoch, logs=None):
        print("told", epoch + 1, self.text, "val_loss" in logs)


def stopper():
    return keras.callbacks.LambdaCallback(on_epoch_end=stop)


def stop(epoch, logs):
    print("stop", epoch + 1)


class Other:
    pass


class Needs(keras.callbacks.Callback):
    def __init__(self, accuracy):
        super().__init__()
"""


def told(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(("told", "stop"))]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    copy_tiny(tmp_path)
    (tmp_path / "mine.py").write_text(CODE)
    return tmp_path


@pytest.mark.slow
def test_named_callbacks_are_called_and_built_again_by_a_resume(project: Path) -> None:
    state = {"XDG_STATE_HOME": str(project / "state")}
    flags = ["--trainer.output_dir", "run", "--trainer.epochs", "1", "--trainer.callbacks", "mine:Tell", "mine:stopper"]
    result = finish_command(start_command("train", "tiny", *flags, cwd=project, env=state))
    assert (result.rc, told(result.stdout)) == (0, ["told 1 TinyScenario of 1 True", "stop 1"]), result
    result = finish_command(start_command("resume_training", "run", "--trainer.epochs", "2", cwd=project, env=state))
    assert (result.rc, told(result.stdout)) == (0, ["told 2 TinyScenario of 2 True", "stop 2"]), result
    # Another user has not typed the names.
    result = finish_command(
        start_command("resume_training", "run", cwd=project, env={"XDG_STATE_HOME": str(project / "other")})
    )
    assert (result.rc, told(result.stdout)) == (2, []), result
    assert "mine" in result.stderr
    assert "--trust mine" in result.stderr


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mine:Other", "callbacks[0] is 'mine:Other', expected a Keras callback; it gives Other"),
        ("mine:Needs", "expected a function of params, scenario; it needs 'accuracy'"),
        ("mine:Gone", "--trainer.callbacks.0 is 'mine:Gone', expected a function that module mine has"),
        ("none:X", "--trainer.callbacks.0 is 'none:X', expected a module that can be imported"),
        ("Tell", "callbacks.0 is 'Tell', expected module:function"),
    ],
)
def test_mistakes(project: Path, name: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(project)
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.callbacks = str(project / "run"), [name]
    with pytest.raises(ValueError, match=re.escape(message)):
        TinyScenario.create_trainer(params).train()
    assert not (project / "run").exists()
    if name == "Tell":  # programs name callbacks as the command line does
        for given in (["keras.callbacks:History"], "keras.callbacks:History keras.callbacks:TerminateOnNaN"):
            params.set_flags({"trainer.callbacks": given})
            assert params.callbacks == (given.split() if isinstance(given, str) else given)
        with pytest.raises(UsageError, match=r"callbacks\[0\] is 'tell', expected module:function"):
            params.set_flags({"trainer.callbacks": ["tell"]})
