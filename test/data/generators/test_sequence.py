from __future__ import annotations

from typing import Any

from test.data.support import epoch, make_pipeline, row, rows
from tfaip.data.generators.sequence import SequenceGenerator
from tfaip.data.pipeline.definitions import Sample


class Items:
    """As a data set of another library: it cannot be sent to a process."""

    def __len__(self) -> int:
        return 9

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"number": index}

    def __reduce__(self) -> Any:
        raise TypeError("not to be sent")


class Numbers(SequenceGenerator):
    """The rows of the items."""

    def open_items(self) -> Items:
        return Items()

    def sample(self, item: dict[str, int]) -> Sample:
        return row(item["number"])


def test_items_are_samples_in_each_process() -> None:
    options: dict[str, Any] = {"batch_size": 4, "worker_start_s": 0.0}
    expected = epoch(make_pipeline(rows(9), num_processes=0, **options), num_samples=16)
    for workers in (0, 2):
        assert epoch(make_pipeline(Numbers(), num_processes=workers, **options), num_samples=16) == expected
    assert epoch(make_pipeline(Numbers(), num_processes=0, **options), expected[0][1], 12) == expected[1:]
