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
