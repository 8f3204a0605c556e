"""A batch with its outputs becomes samples again."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import repeat
from typing import Any

import keras

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError


def samples_of(batch: Batch, outputs: Mapping[str, Any]) -> list[Sample]:
    """The samples of a batch in order; their arrays are views.

    Args:
        batch: what entered the model; a batch without targets gives samples with `targets` None.
        outputs: arrays of shape `[batch, ...]` by name, or tensors, which are waited for.

    Raises:
        TfaipError: an output has not one row per sample.
    """
    arrays = {name: keras.ops.convert_to_numpy(value) for name, value in outputs.items()}
    for name, array in arrays.items():
        if array.ndim == 0 or len(array) != batch.size:
            raise TfaipError(
                f"output {name!r} of the model has the shape {list(array.shape)} for {batch.size} samples: an output "
                "needs one row per sample"
            )
    inputs, rows = _rows(batch.inputs, batch.size), _rows(arrays, batch.size)
    targets = _rows(batch.targets, batch.size) if batch.targets else repeat(None)
    parts = zip(inputs, rows, targets, batch.meta)  # noqa: B905 (strict costs as much as the rest)
    return [Sample(inputs=i, outputs=o, targets=t, meta=m) for i, o, t, m in parts]


def _rows(arrays: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    if len(arrays) == 1:
        ((name, array),) = arrays.items()
        return [{name: row} for row in array]
    if not arrays:
        return [{} for _ in range(count)]
    return [dict(zip(arrays, row)) for row in zip(*arrays.values())]  # noqa: B905
