"""The end of a command: one printable line of an error, its results, and how ends are judged."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from test.fuzz_command_lines import complaints, run_here
from test.support.commands import finish_command, start_python
from tfaip.scripts import train
from tfaip.scripts.common.command import print_results, run_command


@pytest.mark.parametrize(
    ("scenario", "flags", "fragment"),
    [
        pytest.param(
            "test.support.tiny", ["--trainer.epochs", "x" * 5000], "epochs: expected int, got 'xxx", id="value"
        ),
        pytest.param("test.support.tiny", ["--" + "x" * 5000, "1"], "unknown flag --xxx", id="flag"),
        pytest.param("test.support.tiny", ["--device.gpus"] + ["1"] * 500, "gpus is [1", id="list"),
        pytest.param("d" * 400 + "/x", [], "name is too long", id="path"),
    ],
)
def test_a_refusal_is_one_printable_line(scenario: str, flags: list[str], fragment: str) -> None:
    ended = run_here(train.main, [scenario, "--trainer.output_dir", "run", *flags])
    assert ended.rc == 2, ended
    assert complaints(ended, may_fail=False) == []
    assert fragment in ended.stderr


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


def test_the_check_of_an_end_finds_what_is_wrong() -> None:
    for text, rc, found in (
        ("error: one line\n", 2, []),
        ("error: one line\n", 1, ["exit code 1"]),
        ("error: " + "x" * 294 + "\n", 2, ["a message of 301 characters"]),
        ("error: one\nanother\n", 2, ["2 lines on stderr, 1 of them errors"]),
        ("error: \x1b[1m\n", 2, ["characters in the message that cannot be printed"]),
        ("something\n", 0, ["something on stderr, but exit code 0"]),
    ):
        ended = run_here(lambda argv, text=text, rc=rc: (sys.stderr.write(text), rc)[1], [])
        assert complaints(ended, may_fail=False) == found


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
