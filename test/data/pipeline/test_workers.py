"""Worker processes: the same bytes and positions with any number of them, when they start, and that they end."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfaip.data.pipeline.workerpool as executor
from test.data.faults import FaultParams, FilesParams, SlowParams
from test.data.support import (
    Drop,
    IterableRowsParams,
    NoiseParams,
    Pair,
    Repeat,
    epoch,
    make_pipeline,
    row,
    rows,
)
from test.support.commands import finish_command, start_python
from test.support.leaks import child_processes
from test.support.processes import command_line
from tfaip import Sample
from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.processor.params import ComposedProcessorPipelineParams, SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import Position
from tfaip.data.pipeline.worker import Slot, pack, unpack

BATCH, SAMPLES = 7, 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "processors",
    [
        [NoiseParams()],
        [NoiseParams(), Drop(every=40)],  # few: blocks after the first dropped sample are stacked ahead
        [Drop(), NoiseParams(), Repeat(), NoiseParams(), Pair()],
    ],
    ids=["mapping", "dropping", "generating"],
)
def test_any_number_of_workers_gives_the_same_bytes(processors: list[Any]) -> None:
    def make(processes: int, **params: Any) -> DataPipeline:
        return make_pipeline(rows(45), processors, seed=2**63, num_processes=processes, batch_size=BATCH, **params)

    inline = epoch(make(0), num_samples=SAMPLES)
    assert len(inline) == 15
    assert epoch(make(1, use_shared_memory=False), num_samples=SAMPLES) == inline
    assert epoch(make(3, prefetch=2), num_samples=SAMPLES) == inline
    with make(2) as pipeline:
        assert epoch(pipeline, num_samples=SAMPLES) == inline
        # An epoch that was left early is forgotten, and the workers continue where a training resumes.
        with pipeline.training_batches(Position(), SAMPLES) as batches:
            next(batches)
        for stop in (0, 3, 13):
            position = Position.from_dict(json.loads(json.dumps(inline[stop][1].to_dict())))
            assert epoch(pipeline, position, SAMPLES - (stop + 1) * BATCH) == inline[stop + 1 :]
        assert epoch(pipeline, inline[-1][1], SAMPLES) != inline
        assert len(child_processes()) == 2


def test_processors_that_must_run_here_do_so_with_the_same_numbers() -> None:
    processors = [NoiseParams(), NoiseParams(high=7), Drop()]

    def composed(split: int, processes: int) -> list[Any]:
        """An epoch in which the processors from number `split` on must run in the training process."""
        parts = [
            SequentialProcessorPipelineParams(processors=processors[:split]),
            SequentialProcessorPipelineParams(processors=processors[split:], run_parallel=False),
        ]
        lists = ComposedProcessorPipelineParams(pipelines=parts)
        return epoch(make_pipeline(rows(45), lists, batch_size=BATCH, num_processes=processes), num_samples=SAMPLES)

    assert composed(1, 1) == composed(0, 1) == composed(3, 0)


def test_samples_are_read_and_processed_in_workers_without_a_backend() -> None:
    with make_pipeline(FilesParams(count=60), [FaultParams(at=-1)], num_processes=2, batch_size=4) as pipeline:
        with pipeline.generate_input_batches(auto_repeat=False) as batches:
            metas = [meta for batch in batches for meta in batch.meta]
        workers = child_processes()
    assert sorted(meta["id"] for meta in metas) == list(range(60))
    assert {meta["read by"] for meta in metas} == {meta["processed by"] for meta in metas} == workers
    assert all(meta["modules"] == [] for meta in metas)
    assert not child_processes()


@pytest.mark.parametrize("prefetch", [1, 3])
def test_no_more_samples_are_read_than_the_blocks_ahead(prefetch: int) -> None:
    read: list[int] = []

    def stream() -> Iterator[Sample]:
        for value in range(5):
            read.append(value)
            yield row(value)

    params: Any = {"num_processes": 1, "prefetch": prefetch, "batch_size": 1, "mode": "evaluation"}
    pipeline = make_pipeline(RawDataGeneratorParams(stream()), [FaultParams(at=-1)], **params)
    with pipeline.generate_input_batches() as batches:
        next(batches)
        # A stream may wait for the answer to a sample before it gives the next one.
        assert read == list(range(prefetch))
        assert len(list(batches)) == 4


def test_workers_are_replaced_after_their_tasks() -> None:
    options: Any = {"max_tasks_per_process": 2, "num_threads": 1}
    processors = SequentialProcessorPipelineParams(processors=[FaultParams(at=-1)], **options)
    pipeline = make_pipeline(FilesParams(count=20), processors, "evaluation", batch_size=4, num_processes=3)
    with pipeline.generate_input_batches() as batches:
        processed_by = [{meta["processed by"] for meta in batch.meta} for batch in batches]
    (first,), (second,), (third,), (fourth,), (fifth,) = processed_by
    assert first == second != third == fourth != fifth  # five blocks, two for each worker


def test_post_processing_in_workers_is_in_order() -> None:
    def processed(processes: int) -> list[Any]:
        params: Any = {"post_proc": [NoiseParams(), Drop(), Pair()], "batch_size": 4, "num_processes": processes}
        pipeline = make_pipeline(IterableRowsParams(), mode="prediction", seed=3, **params)
        samples = pipeline.process_output(sample.new_outputs({"o": 1}) for sample in rows(30))
        return [(s.meta, s.outputs, s.inputs["x"].tolist(), s.targets["y"].tolist()) for s in samples]

    assert processed(0) == processed(1)
    assert len(processed(0)) > 5


@pytest.mark.slow
def test_default_workers_start_when_they_are_worthwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "AUTOMATIC_START_S", 0.1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    def seen(**params: float) -> set[int]:
        """The numbers of workers that there were in one pass, or until they were ready."""
        slow = SlowParams(seconds=0.01)
        pipeline = make_pipeline(rows(100), [slow], mode="evaluation", batch_size=2, **params)
        numbers = set()
        with pipeline.generate_input_batches() as batches:
            for _ in batches:
                numbers.add(len(child_processes()))
                pool = pipeline._sample_stream.executor.pool
                if pool is not None and pool.is_ready():
                    break
        return numbers

    assert seen() == {0, 2}  # first none; then not 4, but as many as there are cores
    assert seen(num_processes=1) == {1}  # at once
    # A sample takes too little time. How long a really short one takes depends on what else the machine does.
    monkeypatch.setattr(executor, "WORTHWHILE_S", 3600.0)
    assert seen() == {0}


# The processor sleeps in the second block, so that the workers are busy when the signals come.
SCRIPT = """
import os, signal, sys
from test.data.faults import FaultParams, FilesParams
from test.data.support import make_pipeline
from test.support.leaks import child_processes

received = []
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, frame: received.append(number))
fault = FaultParams(fault=sys.argv[1], at=300)
pipeline = make_pipeline(FilesParams(count=400), [fault], num_processes=2, batch_size=4)
with pipeline.generate_input_batches(auto_repeat=False) as batches:
    next(batches)
    print(*child_processes(), flush=True)
    if sys.argv[1] == "sleep":
        list(batches)
    os.killpg(0, signal.SIGINT)
    os.killpg(0, signal.SIGTERM)
    print(len(list(batches)), [signal.Signals(number).name for number in received], len(child_processes()))
print(len(child_processes()))
"""


def test_signals_to_the_group_are_for_the_training_process() -> None:
    result = finish_command(start_python("-c", SCRIPT, "none"))
    assert (result.rc, result.stderr) == (0, "")
    assert result.stdout.splitlines()[1:] == ["99 ['SIGINT', 'SIGTERM'] 2", "0"]


def test_workers_end_with_the_training_process_even_if_it_is_killed() -> None:
    process = start_python("-c", SCRIPT, "sleep")
    assert process.stdout is not None
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    os.kill(process.pid, signal.SIGKILL)
    finish_command(process)
    # `finish_command` waits for the group, and no test may leave shared memory.
    assert [command_line(pid) for pid in workers] == ["", ""]


CLASSES = """
import os
from test.data.support import make_pipeline, rows
from tfaip import PipelineMode, Processor


class Point:
    def __init__(self):
        self.pid = os.getpid()


class Mark(Processor):
    def apply(self, sample):
        return sample.new_meta(Point())


def main():
    pipeline = make_pipeline(rows(8), [Mark()], mode=PipelineMode.EVALUATION, num_processes=1)
    with pipeline.generate_input_samples() as samples:
        print(sum(sample.meta.pid != os.getpid() for sample in samples), "samples in workers")


"""


@pytest.mark.parametrize(
    ("end", "in_workers", "warning"),
    [
        ("if __name__ == '__main__':\n    main()\n", 8, ""),
        ("main()\n", 0, "without asking if __name__ == '__main__': ask it, or move the classes to a module"),
        ("", 0, "classes that were defined interactively exist only in this process: move them to a module"),
    ],
    ids=["guarded", "not guarded", "interactive"],
)
def test_classes_of_the_running_script(end: str, in_workers: int, warning: str, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(CLASSES + end)
    arguments = [tmp_path / "script.py"] if end else ["-c", f"{CLASSES}main()"]
    result = finish_command(start_python(*arguments))
    assert (result.rc, result.stdout) == (0, f"{in_workers} samples in workers\n"), result
    assert warning in result.stderr
    assert bool(warning) == bool(result.stderr)


def test_arrays_go_through_the_memory_and_the_rest_through_the_message() -> None:
    writer = Slot()
    reader = Slot(os.dup(writer.descriptor))  # as another process has it
    image = np.arange(30_000, dtype="float32").reshape(100, 300)
    text = np.array(["a", None], object)
    message = pack({"image": image, "columns": np.asfortranarray(image), "text": text, "meta": {"id": 3}}, writer)
    assert len(message) < 1000
    made, nbytes = unpack(message, reader)
    assert (made["meta"], made["text"].tolist()) == ({"id": 3}, ["a", None])
    np.testing.assert_array_equal(made["image"], image)
    assert made["columns"].flags.f_contiguous
    assert 2 * image.nbytes < nbytes < 2 * image.nbytes + 1000
    made["image"] += 1  # it can be written to, and the memory grows
    again, _ = unpack(pack(np.full(9_000_000, 2, "uint8"), writer), reader)
    assert (again.sum(), made["image"][0, 0]) == (18_000_000, 1)
    writer.close()
    reader.close()
