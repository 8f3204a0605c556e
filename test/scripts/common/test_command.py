"""The start and the end of the process of a command."""

from __future__ import annotations

import pytest

from test.support.commands import finish_command, start_python
from tfaip.scripts import export

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
    if argv:
        raise ValueError("broken")

sys.exit(run_command(work))
"""


@pytest.mark.slow
def test_a_reader_of_data_does_not_keep_a_command_that_failed() -> None:
    result = finish_command(start_python("-c", READING, "fail", env={"TF_CPP_MIN_LOG_LEVEL": "3"}))
    assert (result.rc, result.stdout) == (1, "thread\nexit function\n"), result
    assert "error: ValueError: broken" in result.stderr


@pytest.mark.slow
def test_nor_one_that_succeeded() -> None:
    result = finish_command(start_python("-c", READING, env={"TF_CPP_MIN_LOG_LEVEL": "3"}))
    assert (result.rc, result.stdout) == (0, "thread\nexit function\n"), result


def test_what_all_commands_import_is_small() -> None:
    wanted = "numpy", "keras", "paiargparse"
    code = f"import sys, tfaip.scripts.train; print([name for name in {wanted} if name in sys.modules])"
    result = finish_command(start_python("-c", code))
    assert (result.rc, result.stdout) == (0, "[]\n"), result


def test_a_name_with_a_nul_character(capsys: pytest.CaptureFixture[str]) -> None:
    assert export.main(["name\0nul"]) == 2
    assert capsys.readouterr().err == "error: the argument 'name\\x00nul' holds a NUL character\n"
