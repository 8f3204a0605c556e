"""Params of a pipeline of processors: one sequence, or several in a row."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.params import MAX_PROCESSES, DataPipelineParams, at_most_cores
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.params import ParamsBase, option
from tfaip.params.fields import copied
from tfaip.params.tree import with_shared

if TYPE_CHECKING:
    from tfaip.data.pipeline.processor.dataprocessor import ProcessorPipeline, SampleMapper

TProcessor = TypeVar("TProcessor", bound=DataProcessorParams)


class DataProcessorPipelineParams(ParamsBase):
    """Base of the two forms of lists of processors."""

    def _sequences(self) -> Iterator[SequentialProcessorPipelineParams]:
        raise NotImplementedError(f"{type(self).__name__} lists no processors: use SequentialProcessorPipelineParams")

    def flatten_processors(self) -> list[DataProcessorParams]:
        """Return all processors in the order in which they run, whatever their mode."""
        return [processor for sequence in self._sequences() for processor in sequence.processors]

    def processors_of_type(self, cls: type[TProcessor]) -> list[TProcessor]:
        """Return all processors that are instances of `cls`, in order."""
        return [processor for processor in self.flatten_processors() if isinstance(processor, cls)]

    def has_processor(self, cls: type[DataProcessorParams]) -> bool:
        """Return True if any processor is an instance of `cls`."""
        return bool(self.processors_of_type(cls))

    def replace_all(self, cls: type[DataProcessorParams], replacement: DataProcessorParams) -> int:
        """Replace each instance of `cls` by `replacement`; return how many there were."""
        return self._substitute(cls, [replacement])

    def erase_all(self, cls: type[DataProcessorParams]) -> int:
        """Remove each processor that is an instance of `cls`; return how many there were."""
        return self._substitute(cls, [])

    def _substitute(self, cls: type[DataProcessorParams], new: list[DataProcessorParams]) -> int:
        count = len(self.processors_of_type(cls))
        for sequence in self._sequences():
            processors: list[DataProcessorParams] = []
            for processor in sequence.processors:
                processors += new if isinstance(processor, cls) else [processor]
            sequence.processors = processors
        return count

    def without_first(self, count: int, mode: PipelineMode) -> Self:
        """Return a copy in which the first `count` of the processors that run in `mode` run in none.

        They stay in their places, which select the random numbers of those after them.
        """
        rest = copied(self)
        for sequence in rest._sequences():  # one that is listed twice becomes two
            sequence.processors = list(map(copy.copy, sequence.processors))
        running = [processor for processor in rest.flatten_processors() if mode in processor.modes]
        for processor in running[:count]:
            processor.modes = set()
        return rest

    def create(self, pipeline_params: DataPipelineParams, data_params: Any) -> ProcessorPipeline:
        """Build the processors that run in `pipeline_params.mode`.

        Args:
            pipeline_params: their mode selects the processors.
            data_params: handed to each processor as `self.data_params`.
        """
        return self._create_first(None, pipeline_params.mode, data_params)

    def create_parallel(self, pipeline_params: DataPipelineParams, data_params: Any) -> SampleMapper:
        """Build only the processors that may run in worker processes; otherwise as `create`."""
        mode = pipeline_params.mode
        return self._create_first(self._num_parallel(mode), mode, data_params).parallel

    def _create_first(self, count: int | None, mode: PipelineMode, data_params: Any) -> ProcessorPipeline:
        """Build the first `count` processors that run in a mode (None: all of them).

        Their numbers, which select the random streams, count the processors of all modes, so that the modes of one do
        not change the stream of another.
        """
        from tfaip.data.pipeline.processor.dataprocessor import ProcessorPipeline

        running = [(number, params) for number, params in enumerate(self.flatten_processors()) if mode in params.modes]
        built = [
            (number, with_shared(params, data_params).create(data_params, mode)) for number, params in running[:count]
        ]
        return ProcessorPipeline(built, self._num_parallel(mode))

    def _num_parallel(self, mode: PipelineMode) -> int:
        parallel = takewhile(lambda sequence: sequence.run_parallel, self._sequences())
        return sum(mode in params.modes for sequence in parallel for params in sequence.processors)

    def worker_limit(self, num_processes: int) -> int:
        """Return how many worker processes may run these processors if the data pipeline allows `num_processes`.

        The largest `num_threads` that is set is used.
        """
        wanted = [sequence.num_threads for sequence in self._sequences() if sequence.num_threads > 0]
        return max(wanted, default=num_processes)

    def tasks_per_worker(self) -> int | None:
        """Return the batches after which a worker is replaced: the smallest `max_tasks_per_process`; None: never."""
        limits = [sequence.max_tasks_per_process for sequence in self._sequences()]
        return min((limit for limit in limits if limit > 0), default=None)


class SequentialProcessorPipelineParams(DataProcessorPipelineParams):
    """Processors that run one after the other."""

    run_parallel: bool = option(True, "Run the processors in the worker processes of the pipeline, if it has some")
    num_threads: int = option(
        -1,
        "Worker processes for these processors (-1: num_processes of the data pipeline)",
        low=1,
        high=MAX_PROCESSES,
        also={-1: "num_processes of the pipeline"},
    )
    max_tasks_per_process: int = option(
        -1,
        "Number of batches after which a worker process is replaced, for processors that leak memory (-1: never)",
        low=1,
        also={-1: "never"},
    )
    processors: list[DataProcessorParams] = option([], "Processors in order")

    def limit_to_machine(self, path: Path) -> None:
        """Reduce what params in a file ask for; called when they are loaded."""
        self.num_threads = at_most_cores("num_threads", self.num_threads, path)

    def _sequences(self) -> Iterator[SequentialProcessorPipelineParams]:
        yield self


class ComposedProcessorPipelineParams(DataProcessorPipelineParams):
    """Several sequences of processors that run one after the other."""

    pipelines: list[SequentialProcessorPipelineParams] = option([], "Sequences in order")

    def _sequences(self) -> Iterator[SequentialProcessorPipelineParams]:
        yield from self.pipelines
