"""Callbacks of LAV, and the two that ship with tfaip: for files of samples and for TensorBoard."""

from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.evaluator.evaluator import plots, scalar_results
from tfaip.events.writer import EventWriter
from tfaip.predict.samplefile import SampleWriter


class LAVCallback:
    """Base of callbacks of `LAV.run`; override what you need."""

    def on_sample_end(self, generator_params: DataGeneratorParams, sample: Sample) -> None:
        """Take a predicted and post-processed sample; it has inputs, targets and outputs."""

    def on_lav_end(self, generator_params: DataGeneratorParams, results: dict[str, Any]) -> None:
        """Take the results of a generator, all of whose samples were evaluated."""


def on_sample_of(callbacks: Sequence[LAVCallback], generator: DataGeneratorParams) -> Callable[[Sample], None] | None:
    """Return a function that gives a sample to the callbacks; None if there are none."""

    def on_sample(sample: Sample) -> None:
        for callback in callbacks:
            callback.on_sample_end(generator, sample)

    return on_sample if callbacks else None


class DumpCallback(LAVCallback):
    """Callback that writes every sample to a file.

    Args:
        writer: opened by the caller.
    """

    def __init__(self, writer: SampleWriter) -> None:
        self._writer = writer

    def on_sample_end(self, generator_params: DataGeneratorParams, sample: Sample) -> None:
        self._writer.write(sample)


class TensorBoardCallback(LAVCallback):
    """Callback that writes the numbers, curves and images among the results for TensorBoard.

    Args:
        directory: gets a directory for each generator, named as in a run: `lav_l0/`, `lav_l1/` ...
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._count = 0

    def on_lav_end(self, generator_params: DataGeneratorParams, results: dict[str, Any]) -> None:
        with closing(EventWriter(self._directory / f"lav_l{self._count}")) as writer:
            writer.scalars(scalar_results(results), 0)
            for tag, plot in plots(results).items():
                writer.drawing(tag, plot, 0)
            writer.flush()
        self._count += 1
