"""Processors and pipelines of samples in memory."""

from collections.abc import Iterable, Sequence
from typing import Any

from tfaip.data.pipeline.datagenerator import RawDataGeneratorParams
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import PipelineMode, Sample, SampleSpecs
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams, MappingDataProcessor


class SequenceProcessor(MappingDataProcessor[DataProcessorParams]):
    """Processor that runs others one after the other, until a sample is invalid.

    Args:
        processors: mapping processors, in order.
        params: of the sequence itself.
        data_params: of the scenario's data.
    """

    def __init__(
        self,
        processors: Sequence[MappingDataProcessor[Any]],
        params: DataProcessorParams | None = None,
        data_params: Any = None,
        mode: PipelineMode = PipelineMode.TRAINING,
    ) -> None:
        super().__init__(params or DataProcessorParams(), data_params, mode)
        self.processors = list(processors)

    def apply(self, sample: Sample, *args: Any, **kwargs: Any) -> Sample:
        """Process a sample."""
        for processor in self.processors:
            if not sample.is_valid():
                break
            processor._random = self._random  # `rng` of each continues where the one before stopped
            sample = processor._mapping()(sample)
        return sample

    def supports_preload(self) -> bool:
        return all(processor.supports_preload() for processor in self.processors)


class RawDataPipeline(DataPipeline):
    """Pipeline of samples in memory.

    Args:
        samples: the samples, which are processed again.
        pipeline_params: how to batch.
        data_base: specs, padding, length and processors.
        generator_params: where the samples are from; not read.
        processors: before and after the model, as those of `DataPipeline`, also by name; default: those of the data.
    """

    def __init__(
        self,
        samples: Iterable[Sample],
        pipeline_params: DataPipelineParams,
        data_base: SampleSpecs,
        generator_params: Any = None,
        *processors: Any,
        **named: Any,
    ) -> None:
        source = RawDataGeneratorParams(samples=samples)
        super().__init__(pipeline_params, data_base, source, *processors, **named)
