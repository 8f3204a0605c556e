"""The start and the end of the process of a command, and its results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from test.support.commands import finish_command, start_python
from tfaip.scripts import export
from tfaip.scripts.common.command import print_results

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


def test_a_called_command_that_fails_ends_its_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        export.main([str(tmp_path / "gone")])
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")
