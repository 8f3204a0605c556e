"""What can be done while a model is loaded and validated."""

from __future__ import annotations

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
    """Writes the numbers among the results for TensorBoard, each generator to a directory of its own.

    Args:
        directory: gets `lav_l0/`, `lav_l1/` ... as the directory of a run.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    def on_lav_end(self, generator_params: DataGeneratorParams, results: dict[str, Any]) -> None:
        from tfaip.lav.evaluation import numbers
        from tfaip.trainer.events import EventWriter

        writer = EventWriter(self._directory / f"lav_l{self._count}")
        writer.scalars(numbers(results), 0)
        writer.close()
        self._count += 1
