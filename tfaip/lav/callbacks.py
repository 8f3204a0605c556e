"""What can be done while a model is loaded and validated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.predict.samplefile import SampleWriter


class LAVCallback:
    """Base of callbacks of `LAV.run`; override what you need."""

    def on_sample_end(self, generator_params: DataGeneratorParams, sample: Sample) -> None:
        """A sample was predicted and post-processed; it has inputs, targets and outputs."""

    def on_lav_end(self, generator_params: DataGeneratorParams, results: dict[str, Any]) -> None:
        """All samples of a generator were evaluated."""


def on_sample_of(callbacks: Sequence[LAVCallback], generator: DataGeneratorParams) -> Callable[[Sample], None] | None:
    """What to call with every sample; None if no callback looks at samples, which is faster."""
    watching = [c for c in callbacks if type(c).on_sample_end is not LAVCallback.on_sample_end]
    if not watching:
        return None

    def on_sample(sample: Sample) -> None:
        for callback in watching:
            callback.on_sample_end(generator, sample)

    return on_sample


class DumpCallback(LAVCallback):
    """Writes every sample to a file.

    Args:
        writer: open.
    """

    def __init__(self, writer: SampleWriter) -> None:
        self._writer = writer

    def on_sample_end(self, generator_params: DataGeneratorParams, sample: Sample) -> None:
        self._writer.write(sample)


class TensorBoardCallback(LAVCallback):
    """Writes numbers, curves and images among the results for TensorBoard, each generator to a directory of its own.

    Args:
        directory: gets `lav_l0/`, `lav_l1/` ... as the directory of a run.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._count = 0

    def on_lav_end(self, generator_params: DataGeneratorParams, results: dict[str, Any]) -> None:
        from tfaip.lav.evaluation import drawings, numbers
        from tfaip.trainer.events import EventWriter

        writer = EventWriter(self._directory / f"lav_l{self._count}")
        writer.scalars(numbers(results), 0)
        for tag, drawing in drawings(results).items():
            writer.drawing(tag, drawing, 0)
        writer.close()
        self._count += 1
