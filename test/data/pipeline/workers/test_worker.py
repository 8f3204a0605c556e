"""Classes of the script that a user runs directly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from test.support.commands import finish_command, start_python
from tfaip.data.pipeline.worker import Slot, create_file, pack, unpack

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


@pytest.fixture
def ends() -> Iterator[tuple[Slot, Slot]]:
    """The two ends of one slot, as two processes have them."""
    descriptor = create_file()
    writer, reader = Slot(os.dup(descriptor)), Slot(descriptor)
    yield writer, reader
    writer.close()
    reader.close()


def test_arrays_go_through_the_memory_and_the_rest_through_the_message(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    image = np.arange(30_000, dtype="float32").reshape(100, 300)
    value = {
        "image": image,
        "columns": np.asfortranarray(image),
        "text": np.array(["a", None], object),
        "meta": {"id": 3},
    }
    message = pack(value, writer)
    assert len(message) < 1000
    made, nbytes = unpack(message, reader)
    assert (made["meta"], made["text"].tolist()) == ({"id": 3}, ["a", None])
    np.testing.assert_array_equal(made["image"], image)
    assert made["columns"].flags.f_contiguous
    assert 2 * image.nbytes < nbytes < 2 * image.nbytes + 1000


def test_what_was_read_does_not_change_when_the_memory_is_used_again(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    first, _ = unpack(pack(np.zeros(1000), writer), reader)
    second, _ = unpack(pack(np.ones(1000), writer), reader)
    assert (first.sum(), second.sum()) == (0, 1000)
    first += 1  # it can be written to
    assert unpack(pack(np.full(10, 2.0), writer), reader)[0].sum() == 20


def test_the_memory_grows(ends: tuple[Slot, Slot]) -> None:
    writer, reader = ends
    for size in (10, 3_000_000, 20, 9_000_000):
        value = [np.arange(size, dtype="uint8"), np.arange(7.0)]
        made, _ = unpack(pack(value, writer), reader)
        np.testing.assert_array_equal(made[0], value[0])
        np.testing.assert_array_equal(made[1], value[1])
