"""Errors in a user's own code: two lines at most, with the place in that code; the traceback is in the run's log."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test.fuzz_command_lines import complaints, run_here
from test.support.commands import Run, finish_command, start_python
from test.support.tiny.scenario import TinyScenario
from tfaip.scripts import train
from tfaip.scripts.common.command import print_results, run_command

IMPORTS = """
import keras
from test.scripts.test_user_errors import Changed
from test.support.tiny.model import TinyGraph, TinyModel
from test.support.tiny.scenario import *
"""
GRAPH = """
class Params(TinyModelParams):
    def graph_cls(self): return Graph
    @staticmethod
    def cls(): return Model

class Graph(TinyGraph):
    def build_graph(self, inputs, training=None):
        {in_graph}
        return super().build_graph(inputs, training)

class Model(TinyModel):
    pass

class Bad(Changed):
    def change(params):
        params.scenario.model = Params()
        params.scenario.export_serve, params.samples_per_epoch = False, 8
"""
PROCESSOR = """
class BadJitter(Jitter):
    def apply(self, sample):
        return self.helper(sample)

    def helper(self, sample):
        raise KeyError("no such pixel")  # HERE

class Bad(Changed):
    def change(params):
        params.scenario.data.pre_proc.processors = [BadJitter()]
        params.gen.setup.train.num_processes = 1
"""
CALLBACK = """
class BadCallback(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        1 / 0  # HERE

class Bad(TinyScenario):
    @classmethod
    def create_trainer(cls, *args, **kwargs):
        trainer = super().create_trainer(*args, **kwargs)
        train = trainer.train
        trainer.train = lambda: train([BadCallback()])
        return trainer
"""
POST_INIT = """
class BadJitter(Jitter):
    def __post_init__(self):
        self.amount / 0  # HERE

class Bad(Changed):
    def change(params):
        params.scenario.data.pre_proc.processors = [BadJitter()]
"""
STYLED = 'raise ValueError("bad layer")  # HERE'
CASES = {
    "graph": (GRAPH.format(in_graph=STYLED), "ValueError: bad layer"),
    "operation": (
        GRAPH.format(in_graph='keras.ops.matmul(inputs["x"], keras.ops.zeros([7, 7]))  # HERE'),
        "Error: ",
    ),
    "worker": (PROCESSOR, "KeyError: 'no such pixel'; in BadJitter.apply, sample"),
    "callback": (CALLBACK, "ZeroDivisionError: division by zero"),
    "params": (POST_INIT, "ZeroDivisionError: "),
}


class Changed(TinyScenario):
    """A scenario that changes the params that a training starts with."""

    change: Callable[[Any], None]

    @classmethod
    def default_trainer_params(cls) -> Any:
        params = super().default_trainer_params()
        cls.change(params)
        return params


def line_of(file: Path) -> int:
    """Number of the line that is marked."""
    return next(number for number, line in enumerate(file.read_text().splitlines(), 1) if line.endswith("# HERE"))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_place_and_traceback(name: str, tmp_path: Path, run: Run) -> None:
    code, message = CASES[name]
    file = tmp_path / f"bad_{name}.py"
    file.write_text(IMPORTS + code)
    result = run("train", f"bad_{name}", "--trainer.output_dir", "run")
    assert (result.rc, result.stderr.count("error: ")) == (1, 1)
    *_, first, second = result.stderr.splitlines()  # TensorFlow may print more in a worker
    assert first.startswith("error: ")
    assert message in first
    assert len(first) <= 300
    assert second.startswith(f"  in {file}:{line_of(file)} in ")
    assert "\x1b" not in first + second
    # What fails while the model is built leaves no run.
    log = tmp_path / "run" / "train.log"
    assert log.exists() == (name not in ("graph", "operation", "params"))
    if log.exists():
        assert second.endswith(f"(the traceback is in {log})")
        assert f'{file.name}", line {line_of(file)}' in log.read_text()
        assert "\x1b" not in log.read_text()


def test_a_value_that_a_base_class_refuses_is_no_error_of_the_line_that_calls_it(tmp_path: Path, run: Run) -> None:
    (tmp_path / "bad_call.py").write_text(
        IMPORTS
        + """
class Mine(TinyScenario.trainer_params_cls()):
    def __post_init__(self):
        super().__post_init__()

class Bad(TinyScenario):
    @classmethod
    def trainer_params_cls(cls): return Mine
"""
    )
    result = run("train", "bad_call", "--trainer.output_dir", "run", "--trainer.epochs", "0")
    (line,) = result.stderr.splitlines()
    assert line.endswith("epochs is 0, expected at least 1: change --trainer.epochs")


def test_a_long_error_of_a_library_keeps_its_beginning_and_its_end() -> None:
    def fail(argv: object) -> None:
        raise RuntimeError("begin\n" + "\x1b[1m page\n" * 300 + "end")

    ended = run_here(lambda argv: run_command(fail, argv), [])
    assert (ended.rc, complaints(ended, may_fail=True)) == (1, [])
    message, where = ended.stderr.splitlines()
    assert message.startswith("error: RuntimeError: begin page page ")
    assert message.endswith(" page end")
    assert where.startswith("  in ")
    assert where.endswith(" in fail (TFAIP_LOG_LEVEL=debug shows the traceback)")


def test_a_called_command_that_fails_ends_its_caller(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="^2$"):
        train.main(["gone"])
    assert capsys.readouterr().err.startswith("error: ")


# The interpreter's own clean-up would wait for the reader of the data for ever.
READING = """
import atexit, sys, threading, time
import tensorflow as tf
from tfaip.scripts.common.command import run_command

def numbers():
    while True:
        time.sleep(0.01)  # it is in Python whenever the process ends
        yield 0

def work(argv):
    global batches
    signature = tf.TensorSpec((), tf.int32)
    batches = iter(tf.data.Dataset.from_generator(numbers, output_signature=signature).prefetch(10**6))
    next(batches)
    atexit.register(print, "exit function")
    threading.Thread(target=lambda: print("thread")).start()
    raise ValueError("broken")

sys.exit(run_command(work))
"""


@pytest.mark.slow
def test_a_reader_of_data_does_not_keep_a_command() -> None:
    result = finish_command(start_python("-c", READING, env={"TF_CPP_MIN_LOG_LEVEL": "3"}))
    assert (result.rc, result.stdout) == (1, "thread\nexit function\n"), result
    assert "error: ValueError: broken" in result.stderr


def test_every_value_takes_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_results({"value": {"acc": 0.5, "confusion": np.arange(6).reshape(2, 3), "text": "a\nb"}})
    assert capsys.readouterr().out.splitlines() == [
        "                       value",
        "acc                      0.5",
        "confusion  [[0 1 2] [3 4 5]]",
        "text                     a b",
    ]
