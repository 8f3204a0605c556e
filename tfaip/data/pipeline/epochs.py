"""Epochs: numbers of samples and batches in one, whatever the stream contains.

An epoch with buckets has the same number of batches, so that the number of steps is known before
the lengths are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

from tfaip.data.pipeline.datagenerator import DataGenerator, size_of
from tfaip.data.pipeline.params import DataPipelineParams
from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice

_LARGEST_SIZE = 2**63 - 1  # of an int in the params


def epoch_size(
    generator: DataGenerator[Any], params: DataPipelineParams, samples_per_epoch: int, scale_epoch_size: float
) -> int:
    """Return the number of samples of an epoch; see `DataPipeline.epoch_size`."""
    size = samples_per_epoch
    if samples_per_epoch == -1:
        size = round(min(_pass_size(generator, params) * scale_epoch_size, _LARGEST_SIZE))
    if size < 1:
        raise FieldAdvice(
            f"an epoch has {size} samples: expected at least 1, change {{samples_per_epoch}} ({samples_per_epoch}) or "
            f"{{scale_epoch_size}} ({scale_epoch_size}), or the data",
            "samples_per_epoch",
            "scale_epoch_size",
        )
    return size


def _pass_size(generator: DataGenerator[Any], params: DataPipelineParams) -> int:
    try:
        return params.limited_size(size_of(generator))
    except (TypeError, NotImplementedError) as error:
        if params.limit > 0:
            return params.limit
        text = f"{error}: say how many make an epoch with {{samples_per_epoch}}"
        raise FieldAdvice(text, "samples_per_epoch") from error


def num_batches(num_samples: int, batch_size: int, drop_remainder: bool) -> int:
    """Return the number of batches of an epoch; see `DataPipeline.num_batches`."""
    count, rest = divmod(num_samples, batch_size)
    if rest and not drop_remainder:
        count += 1
    if count == 0:
        raise UsageError(
            f"{num_samples} samples give no batch of batch_size {batch_size} with "
            f"batch_drop_remainder: make the epoch larger, the batch smaller, or keep the remainder"
        )
    return count


def batch_sizes(num_samples: int, batch_size: int, drop_remainder: bool) -> Iterator[int]:
    """Yield the sizes of the batches of an epoch."""
    full, rest = divmod(num_samples, batch_size)
    yield from repeat(batch_size, full)
    if rest and not drop_remainder:
        yield rest
