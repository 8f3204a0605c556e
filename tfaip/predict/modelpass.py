"""One pass of data through models, batches in and samples out, for prediction, voting and LAV."""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice, repeat
from typing import Any, TypeVar

from tfaip.backend.active import backend
from tfaip.backend.environment import compiles_each_shape
from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.device.collectives import all_gather_arrays
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError

T = TypeVar("T")


class EvaluationStopped(Exception):  # noqa: N818 (a request, not an error)
    """The evaluation was asked to stop."""


@dataclass
class BenchmarkResults:
    """Counts and seconds of a pass; they grow while it runs.

    Args:
        samples: samples that entered the model.
        batches: batches of them.
        model_s: seconds spent on the model and waiting for it, the first batch and its compilation included.
        wall_s: seconds from the start to the last batch: data, model, and what was done with the samples.
    """

    samples: int = 0
    batches: int = 0
    model_s: float = 0.0
    wall_s: float = 0.0

    @property
    def samples_per_s(self) -> float:
        """Throughput over the whole time; 0 before anything was measured."""
        return self.samples / self.wall_s if self.wall_s else 0.0

    def count(self, size: int, started: float) -> None:
        """Count a finished batch; the pass began at `started` (`time.perf_counter()`)."""
        self.samples += size
        self.batches += 1
        self.wall_s = time.perf_counter() - started

    def to_dict(self) -> dict[str, float]:
        """Return all numbers by name."""
        return {**asdict(self), "samples_per_s": self.samples_per_s}

    def pretty_print(self, print_fn: Callable[[str], Any] = print) -> None:
        """Print all numbers, one per line (`print_fn`: called with each line)."""
        numbers = self.to_dict()
        width = max(map(len, numbers))
        for name, value in numbers.items():
            print_fn(f"{name:{width}}  {value:g}")

    def __str__(self) -> str:
        return (
            f"{self.samples} samples in {self.wall_s:.2f} s ({self.samples_per_s:.0f} per second), "
            f"{self.model_s:.2f} s of them in the model"
        )


def run_pass(
    pipeline: DataPipeline,
    start: Callable[[Batch], Any],
    unbatch: Callable[[Batch, Any], Iterable[T]],
    benchmark: BenchmarkResults,
    *,
    read_ahead: int = 0,
    in_order: bool = True,
    devices: Devices | None = None,
    is_needed: Callable[[], bool] = lambda: True,
    should_stop: Callable[[], bool] = lambda: False,
    progress: Callable[[Iterator[Batch]], Iterator[Batch]] = iter,
) -> Iterator[T]:
    """Run the batches of one pass over a pipeline through models, and yield samples lazily.

    The batches come in rounds of one batch per process, so in single batches where there is one
    process. Every process must run the pass to its end.

    Args:
        pipeline: makes the batches; its mode decides if they have targets.
        start: starts the models on a batch; what it returns need not be computed yet.
        unbatch: waits for the outputs of a batch and makes its samples.
        benchmark: gets the counts and times.
        read_ahead: rounds that are read and started before the outputs of the first one are waited for.
        in_order: keep the order of the data, where buckets would change it.
        devices: the processes that share the batches; None: one process. `start` returns arrays by name, if there are
            several.
        is_needed: asked in each process before the samples of a round are made, which the chief does for all
            processes; once False, no more are made.
        should_stop: asked after each round; True raises `EvaluationStopped`.
        progress: passes the batches on and shows how many there were.

    Raises:
        UsageError: if there is no batch, and the pipeline is not one for prediction.
    """
    devices = devices or Devices()
    own, num_processes = devices.process_id, devices.num_processes
    began, makes_samples = time.perf_counter(), True

    def started(batches: Iterator[Batch]) -> Iterator[tuple[list[Batch], Any]]:
        while group := list(islice(batches, num_processes)):
            before = time.perf_counter()
            running = start(group[own]) if own < len(group) else None
            benchmark.model_s += time.perf_counter() - before
            yield group, running

    # JAX compiles every shape: few_shapes pads the batches of a bucket to the same length.
    with pipeline.generate_input_batches(False, few_shapes=compiles_each_shape(), in_order=in_order) as batches:
        for group, running in _delayed(started(progress(batches)), read_ahead):
            before = time.perf_counter()
            makes_samples = makes_samples and is_needed()
            outputs = _gathered_by_chief(devices, running) if makes_samples else []
            made = [unbatch(*pair) for pair in zip(group, outputs, strict=False)]
            benchmark.model_s += time.perf_counter() - before
            for batch in group:
                benchmark.count(batch.size, began)
            yield from chain.from_iterable(made)
            if should_stop():
                raise EvaluationStopped
    # Nothing to predict is no error, but the scores of nothing would be 0.
    if benchmark.batches == 0 and pipeline.mode is not PipelineMode.PREDICTION:
        raise UsageError(
            f"the {pipeline.mode.value} data give no batch: use a smaller batch size, or keep the remainder "
            "(batch_drop_remainder)"
        )


def _gathered_by_chief(devices: Devices, outputs: Mapping[str, Any] | None) -> list[Any]:
    """Return, on the chief, the outputs of each batch of a round, given those of this process (None: it had none)."""
    if devices.num_processes == 1:
        return [outputs]
    gathered = all_gather_arrays(devices, {name: backend.to_numpy(value) for name, value in (outputs or {}).items()})
    return gathered if devices.is_chief else []


def _delayed(items: Iterable[T], distance: int) -> Iterator[T]:
    """Yield each item after `distance` further ones have been read."""
    waiting: deque[T] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > distance:
            yield waiting.popleft()
    yield from waiting


def samples_of(batch: Batch, outputs: Mapping[str, Any]) -> list[Sample]:
    """Return the samples of a batch in order; their inputs, targets and outputs are views of rows.

    Args:
        batch: what entered the model; a batch without targets gives samples with `targets` None.
        outputs: arrays of shape `[batch, ...]` by name, or tensors, which are waited for; they are copied.

    Raises:
        TfaipError: if an output does not have one row per sample.
    """
    arrays = {name: backend.to_numpy(value) for name, value in outputs.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != batch.size:
            raise TfaipError(
                f"output {name!r} of the model has the shape {list(array.shape)} for {batch.size} samples: an output "
                "needs one row per sample"
            )
    inputs, rows = _rows(batch.inputs, batch.size), _rows(arrays, batch.size)
    targets = _rows(batch.targets, batch.size) if batch.targets else repeat(None)
    parts = zip(inputs, rows, targets, batch.meta)  # noqa: B905 (strict costs as much as the rest)
    return [Sample(inputs=i, outputs=o, targets=t, meta=m) for i, o, t, m in parts]


def _rows(arrays: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    # This runs for every batch of a tiny model, too: a single array, the usual case, needs no zip.
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        return [{name: row} for row in array]
    if not arrays:
        return [{} for _ in range(count)]
    return [dict(zip(arrays, row)) for row in zip(*arrays.values())]  # noqa: B905
