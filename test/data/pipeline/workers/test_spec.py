"""Classes of the script that a user runs directly."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.commands import finish_command, start_python

SCRIPT = """
import os
from dataclasses import dataclass
from test.data.support import make_pipeline, rows
from tfaip.imports import DataProcessorParams, MappingDataProcessor, PipelineMode
from tfaip.params import pai_dataclass


class Point:
    pass


@pai_dataclass
@dataclass
class MarkParams(DataProcessorParams):
    @staticmethod
    def cls():
        return Mark


class Mark(MappingDataProcessor):
    def apply(self, sample):
        point = Point()
        point.pid = os.getpid()
        return sample.new_meta(point)


def main():
    pipeline = make_pipeline(rows(8), [MarkParams()], mode=PipelineMode.EVALUATION, num_processes=1)
    with pipeline.generate_input_samples() as samples:
        print(sum(sample.meta.pid != os.getpid() for sample in samples), "samples in workers")


"""


@pytest.mark.parametrize(
    ("end", "in_workers", "warning"),
    [
        ("if __name__ == '__main__':\n    main()\n", 8, ""),
        ("main()\n", 0, "without asking if __name__ == '__main__': ask it, or move the classes to a module"),
    ],
    ids=["guarded", "not guarded"],
)
def test_classes_of_the_running_script(end: str, in_workers: int, warning: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT + end)
    result = finish_command(start_python(tmp_path / "script.py"))
    assert (result.rc, result.stdout) == (0, f"{in_workers} samples in workers\n"), result
    assert warning in result.stderr
    assert bool(warning) == bool(result.stderr)


def test_interactive_classes_stay_in_their_process() -> None:
    result = finish_command(start_python("-c", f"{SCRIPT}main()"))
    assert (result.rc, result.stdout) == (0, "0 samples in workers\n"), result
    assert "classes that were defined interactively exist only in this process: move them to a module" in result.stderr


SCENARIO = """
import os, sys
import numpy as np
from tfaip import Data, Generator, ModelBaseParams, Sample, Scenario, Spec


class Numbers(Data):
    inputs = {"x": Spec(1)}


class Count(Generator):
    looks_up: bool = False

    def __len__(self):
        return 2

    def __getitem__(self, index):
        if self.looks_up:
            CountScenario.PipelineParams().to_json()
        return Sample(inputs={"x": np.ones(1)}, meta=(os.getpid(), "tfaip.trainer.params" in sys.modules))


class Model(ModelBaseParams, cls=".none:None"):
    pass


class CountScenario(Scenario):
    data, model, train = Numbers, Model, Count()
"""
USE_OF_SCENARIO = """
import os
import sys
from dataclasses import replace
import counting
from tfaip.imports import DataPipelineParams, PipelineMode


def main():
    params = DataPipelineParams(mode=PipelineMode.EVALUATION, num_processes=1)
    data = counting.Numbers()
    for generator in (counting.Count(), counting.Count(looks_up=True)):
        with data.create_pipeline(params, generator).generate_input_samples() as samples:
            pids, *facts = zip(*(sample.meta for sample in samples))
        print(os.getpid() in pids, *facts)


if __name__ == "__main__":
    main()
"""


def test_workers_make_params_classes_of_a_scenario_only_if_they_are_needed(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(SCENARIO)
    (tmp_path / "script.py").write_text(USE_OF_SCENARIO)
    result = finish_command(start_python(tmp_path / "script.py"))
    assert (result.rc, result.stdout, result.stderr) == (0, "False (False, False)\nFalse (True, True)\n", "")
