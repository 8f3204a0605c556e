"""Work on many items in the worker processes of a data pipeline."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sized
from functools import partial
from typing import Any, TypeVar

from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.data.pipeline.params import AUTOMATIC_PROCESSES, DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.data.pipeline.sampler import DropCounts
from tfaip.data.pipeline.worker import WorkerSpec
from tfaip.data.pipeline.workerpool import PostProcessor
from tfaip.params import option
from tfaip.util.terminal import track

T = TypeVar("T")


class DataWorker(ABC):
    """Work of a process: `setup` is called once in it, `process` with each item."""

    def setup(self) -> None:  # noqa: B027 (not every worker needs it)
        """Prepare the work, e.g. load what all items need; default: nothing."""

    @abstractmethod
    def process(self, item: Any) -> Any:
        """Return the result of an item."""


class WorkParams(DataProcessorParams, cls=":Work"):
    """Work on one item, as a processor of a data pipeline."""

    create_function: Any = option(None, "Function that returns the function of an item", mode="ignore")


class Work(MappingDataProcessor[WorkParams]):
    """Processor of an item, which a sample carries as its meta data."""

    def __init__(self, params: WorkParams, data_params: Any, mode: Any) -> None:
        super().__init__(params, data_params, mode)
        self._function: Callable[[Any], Any] = params.create_function()

    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        """Process the item of a sample."""
        return sample.new_meta(self._function(sample.meta))


def _map(create_function: Callable[[], Callable[[Any], Any]], items: Iterable[Any], processes: int) -> Iterator[Any]:
    """Yield the results of items in their order; worker processes read ahead.

    Args:
        create_function: called once in each process, returns the function of an item.
        items: may be endless.
        processes: number of worker processes; 0: none.
    """
    # An item may take long: only the end of a worker is an error, not its silence.
    params = DataPipelineParams(batch_size=1, num_processes=processes, worker_timeout_s=1e6)
    work = SequentialProcessorPipelineParams(processors=[WorkParams(create_function=create_function)])
    processor = PostProcessor(WorkerSpec(params, DataBaseParams(), work, 0), DropCounts())
    try:
        for sample in processor.process(Sample(meta=item) for item in items):
            yield sample.meta
    finally:
        processor.close()


def _same(function: T) -> T:
    return function


def _worker_function(create_worker: Callable[[], DataWorker]) -> Callable[[Any], Any]:
    worker = create_worker()
    worker.setup()
    return worker.process


def parallel_map(
    function: Callable[[Any], T],
    items: Iterable[Any],
    desc: str = "",
    processes: int = AUTOMATIC_PROCESSES,
    progress_bar: bool = False,
) -> list[T]:
    """Return `function(item)` of each item, in their order.

    Args:
        function: must be picklable, as its results must be; otherwise it runs in this process, with a warning.
        items: to process.
        desc: printed before the progress bar.
        processes: number of worker processes (default: at most 4, and one per core); 0: none.
        progress_bar: show a progress bar.

    Raises:
        Exception: what `function` raises.
    """
    items = list(items)
    results = _map(partial(_same, function), items, processes if len(items) > 1 else 0)
    return list(track(results, desc, len(items), progress_bar))


def tqdm_wrapper(
    iterable: Iterable[T], progress_bar: bool = True, desc: str = "", total: int | None = None
) -> Iterator[T]:
    """Pass items on and show a progress bar.

    Args:
        iterable: the items.
        progress_bar: False shows none.
        desc: printed before the bar.
        total: number of items; None: `len(iterable)` if it is known.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    return track(iterable, desc, total, progress_bar)


class ParallelGenerator(ABC):
    """Iterable over the results of inputs that a `DataWorker` processes, in order.

    Args:
        processes: number of worker processes (default: at most 4, and one per core); 0: none.
    """

    def __init__(self, processes: int = AUTOMATIC_PROCESSES) -> None:
        self.processes = processes

    @abstractmethod
    def create_worker(self) -> DataWorker:
        """Return a worker; called in each process, so that the object itself must be picklable."""

    @abstractmethod
    def generate_input(self) -> Iterable[Any]:
        """Return the items, in this process; they may be endless."""

    def __iter__(self) -> Iterator[Any]:
        return _map(partial(_worker_function, self.create_worker), self.generate_input(), self.processes)
