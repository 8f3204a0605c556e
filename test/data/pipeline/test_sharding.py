"""Processes that train together: each makes its rows, all rows together are the batches of one process."""

from typing import Any

import pytest

from test.data.faults import FaultParams
from test.data.support import Drop, NoiseParams, Pair, RowData, make_pipeline, rows
from tfaip import Data, Spec
from tfaip.data.pipeline.batching import UNSHARDED, Shard
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.sampler import Position
from tfaip.errors import TfaipError


class EvenData(Data):
    """Numbers alone, which all have one shape."""

    targets = {"y": Spec(1, int)}

    def _input_layer_specs(self) -> dict[str, Any]:
        return {}


def epoch(pipeline: DataPipeline, shard: Shard, samples: int = 24, start: Position | None = None) -> list[Any]:
    """Targets and position of each batch."""
    with pipeline.training_batches(start or Position(), samples, shard) as batches:
        return [(batch.targets["y"][:, 0].tolist(), position) for batch, position in batches]


def pipeline(*processors: Any, data: type[Data] = EvenData, size: int = 10, **params: Any) -> DataPipeline:
    return make_pipeline(rows(size), list(processors), data=data, batch_size=6, **params)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_the_rows_together_are_the_whole_batches(workers: int) -> None:
    # Batches of 6 from passes of 10: they begin anywhere in a pass.
    whole = epoch(pipeline(NoiseParams()), UNSHARDED)
    parts = [epoch(pipeline(NoiseParams(), num_processes=workers), (rank, 3, 3)) for rank in range(3)]
    assert len(whole) == 4
    for number, batch in enumerate(whole):
        assert all(part[number][1] == batch[1] for part in parts)
        assert sum((part[number][0] for part in parts), []) == batch[0]
    # It goes on from any batch.
    assert epoch(pipeline(NoiseParams()), (1, 3, 3), 12, whole[1][1]) == parts[1][2:]


def test_a_dropped_sample_is_replaced_by_one_of_its_rows() -> None:
    plain = epoch(pipeline(shuffle_buffer_size=0), (0, 3, 3))
    assert [targets for targets, _ in plain] == [[0, 1], [6, 7], [2, 3], [8, 9]]
    made = pipeline(Drop(every=2), shuffle_buffer_size=0)
    kept = epoch(made, (0, 3, 3))
    assert [targets for targets, _ in kept] == [[1, 1], [7, 7], [3, 3], [9, 9]]
    assert [position for _, position in kept] == [position for _, position in plain]
    assert made.dropped.invalid == 4  # of its own rows alone
    with pytest.raises(TfaipError, match="all 2 samples of a batch in process 2 were dropped: 2 invalid"):
        epoch(pipeline(Drop(every=1)), (2, 3, 3))


@pytest.mark.parametrize(
    ("processors", "data", "params"),
    [
        ([Pair()], EvenData, {}),
        ([NoiseParams()], RowData, {}),
        ([NoiseParams()], RowData, {"bucket_boundaries": [3]}),
    ],
)
def test_what_depends_on_the_whole_batch_is_cut_from_it(
    processors: list[Any], data: type[Data], params: dict[str, Any]
) -> None:
    whole = epoch(pipeline(*processors, data=data, **params), UNSHARDED)
    parts = [epoch(pipeline(*processors, data=data, **params), (rank, 3, 3)) for rank in range(3)]
    for number, (targets, position) in enumerate(whole):
        own = [part[number][0] for part in parts]
        # What is left in the buckets at the end of a pass cannot be split.
        assert sum(own, []) == targets if len(targets) % 3 == 0 else own == [targets] * 3
        assert all(part[number][1] == position for part in parts)
    shapes = []
    for shard in (UNSHARDED, (0, 3, 3), (1, 3, 3), (2, 3, 3)):
        with pipeline(*processors, data=data, **params).training_batches(Position(), 24, shard) as batches:
            shapes.append([[array.shape[1:] for array in batch.inputs.values()] for batch, _ in batches])
    assert shapes == [shapes[0]] * 4  # padded to the longest sample of the whole batch


@pytest.mark.parametrize("processors", [[NoiseParams()], [Pair()], []])
def test_every_process_has_all_rows_of_a_last_batch_that_cannot_be_split(processors: list[Any]) -> None:
    # Own rows alone are made, whole batches are, or rows are taken from arrays.
    whole = epoch(pipeline(*processors), UNSHARDED, 17)
    parts = [epoch(pipeline(*processors), (rank, 3, 3), 17) for rank in range(3)]
    assert [len(targets) for targets, _ in whole] == [6, 6, 5]
    assert all(part[-1][0] == whole[-1][0] for part in parts)
    assert sum((part[1][0] for part in parts), []) == whole[1][0]
    with pipeline(*processors).training_batches(Position(), 17, (1, 3, 3)) as batches:
        assert [batch.is_whole for batch, _ in batches] == [False, False, True]


def test_each_process_counts_the_samples_of_its_own_rows_that_failed() -> None:
    faults = [FaultParams(fault="raise", at=at) for at in (1, 5, 9)]
    made = pipeline(*faults, size=12, shuffle_buffer_size=0, on_error="skip:2")
    # Of batches of 6 the second process has the rows 3 to 5 and 9 to 11.
    positions = [position for _, position in epoch(made, (1, 2, 2))]
    assert [position.failed for position in positions] == [1, 2, 1, 2]
    assert epoch(made, (1, 2, 2), 6, positions[2])[0][1] == positions[3]
    with pytest.raises(ZeroDivisionError, match="bad pixel"):
        epoch(pipeline(*faults, size=12, shuffle_buffer_size=0, on_error="skip:1"), (1, 2, 2))
