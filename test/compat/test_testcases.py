"""Ready tests of tfaip 1.2, as functions of a test case."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from unittest import TestCase

import numpy as np
import pytest

from test.support.tiny.scenario import TinyScenario
from tfaip.compat import testcases
from tfaip.compat.utilities import enforce_types, glob_all, packbits, packsize, unpackbits


@pytest.mark.slow
def test_a_scenario_passes_the_ready_tests() -> None:
    case = TestCase()
    arguments = testcases.AdditionalTrainerArgs(preload_data=True)
    testcases.single_train_iter(case, TinyScenario, args=arguments)
    testcases.lav_test_case(case, TinyScenario)
    testcases.resume_training(case, TinyScenario)
    testcases.warmstart_training_test_case(case, TinyScenario)
    case.doCleanups()


def test_values_are_compared() -> None:
    case = TestCase()
    testcases.assert_equality_dict(case, {"a": 1.0, "b": [2.0]}, {"a": 1.001, "b": [2.0]}, delta=0.01)
    with pytest.raises(AssertionError, match="a"):
        testcases.assert_equality_dict(case, {"a": 1.0}, {"a": 1.1}, delta=0.01)
    with pytest.raises(AssertionError, match="not the same values"):
        testcases.assert_equality_dict(case, {"a": 1.0}, {"b": 1.0}, delta=0.01)
    testcases.assert_equality(case, "acc", 1.0, 0.0, delta=0.01, ignore_binary_metric=True)
    testcases.assert_equality(case, "matrix", np.zeros(2), np.ones(2), delta=0.01, ignore_array_metric=True)


def test_paths_and_commands_of_tests(tmp_path: Path) -> None:
    (tmp_path / "workdir").mkdir()
    file = tmp_path / "sub" / "test_it.py"
    assert testcases.workdir_path(str(file), "data", "a.txt") == str(tmp_path / "workdir" / "data" / "a.txt")
    code = "import os, tfaip; assert os.environ['SET'] == '1'"
    assert testcases.call_in_root([sys.executable, "-c", code], {**os.environ, "SET": "1"}) == 0
    with pytest.raises(subprocess.CalledProcessError):
        testcases.call_in_root([sys.executable, "-c", "raise SystemExit(3)"])


def test_small_functions(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).touch()
    found = glob_all([f"{tmp_path}/*.csv", f"{tmp_path}/*.txt"])
    assert [Path(path).name for path in found] == ["c.csv", "a.txt", "b.txt"]
    bits = np.array([1, 0, 1, 1, 0, 0, 0, 1, 1])
    assert packbits(bits).tolist() == [0b10110001, 0b10000000]
    assert packsize(9) == 2
    assert unpackbits(packbits(bits), 9).tolist() == bits.tolist()
    assert enforce_types(Path) is Path
