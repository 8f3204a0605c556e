from __future__ import annotations

import pytest

from test.data.support import DropParams, NoiseParams, RepeatParams, RowDataParams
from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.data.pipeline.processor.params import (
    ComposedProcessorPipelineParams,
    DataProcessorPipelineParams,
    SequentialProcessorPipelineParams,
)


def sequential() -> SequentialProcessorPipelineParams:
    return SequentialProcessorPipelineParams(
        run_parallel=False, processors=[NoiseParams(high=1), DropParams(), NoiseParams(high=2)]
    )


def composed() -> ComposedProcessorPipelineParams:
    first = SequentialProcessorPipelineParams(processors=[NoiseParams(high=1), DropParams()])
    second = SequentialProcessorPipelineParams(processors=[NoiseParams(high=2)])
    return ComposedProcessorPipelineParams(pipelines=[first, second])


@pytest.mark.parametrize("make", [sequential, composed])
def test_queries(make: type[DataProcessorPipelineParams]) -> None:
    params = make()
    assert params.flatten_processors() == [NoiseParams(high=1), DropParams(), NoiseParams(high=2)]
    assert params.processors_of_type(NoiseParams) == [NoiseParams(high=1), NoiseParams(high=2)]
    assert params.has_processor(DropParams)
    assert not params.has_processor(RepeatParams)


@pytest.mark.parametrize("make", [sequential, composed])
def test_replace_and_erase(make: type[DataProcessorPipelineParams]) -> None:
    params = make()
    assert params.replace_all(NoiseParams, RepeatParams()) == 2
    assert params.flatten_processors() == [RepeatParams(), DropParams(), RepeatParams()]
    assert params.erase_all(RepeatParams) == 2
    assert params.flatten_processors() == [DropParams()]
    assert params.erase_all(RepeatParams) == 0


@pytest.mark.parametrize("make", [sequential, composed])
def test_create_builds_the_processors_of_the_mode(make: type[DataProcessorPipelineParams]) -> None:
    params = make()
    params.processors_of_type(DropParams)[0].modes = {PipelineMode.TRAINING}
    data_params = RowDataParams()
    names = {}
    for mode in (PipelineMode.TRAINING, PipelineMode.PREDICTION):
        built = params.create(DataPipelineParams(mode=mode), data_params).processors
        names[mode.value] = [type(processor).__name__ for processor in built]
        assert all(processor.mode is mode and processor.data_params is data_params for processor in built)
    assert names == {"training": ["Noise", "Drop", "Noise"], "prediction": ["Noise", "Noise"]}


def test_the_base_says_what_to_use() -> None:
    with pytest.raises(NotImplementedError, match="use SequentialProcessorPipelineParams"):
        DataProcessorPipelineParams().flatten_processors()


def test_what_processors_ask_of_the_workers() -> None:
    def parts(*settings: tuple[int, int]) -> ComposedProcessorPipelineParams:
        return ComposedProcessorPipelineParams(
            pipelines=[SequentialProcessorPipelineParams(num_threads=n, max_tasks_per_process=m) for n, m in settings]
        )

    assert parts((-1, -1), (-1, -1)).worker_limit(4) == 4
    assert parts((-1, 7), (3, -1), (2, 5)).worker_limit(4) == 3
    assert parts((-1, 7), (3, -1), (2, 5)).tasks_per_worker() == 5
    assert parts((-1, -1)).tasks_per_worker() is None
    for name in ("num_threads", "max_tasks_per_process"):
        with pytest.raises(ValueError, match=f"{name} is 0, expected .* 1.*, or -1 for"):
            SequentialProcessorPipelineParams(**{name: 0})
