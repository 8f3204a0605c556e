"""Votes: the outputs of several models for a sample become one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError

P = TypeVar("P", bound=DataBaseParams)


class MultiModelVoter(ABC, Generic[P]):
    """Base of votes on the outputs of several models. Override `vote`.

    Args:
        data_params: params of the data; None, if the vote does not need them.
    """

    post_processed: ClassVar[bool] = True
    """True: each model has its own post-processing, before the vote. False: the vote is on the outputs of the models
    themselves, and its result runs through the post-processing of the first model."""

    def __init__(self, data_params: P | None = None) -> None:
        self.data_params = data_params

    @abstractmethod
    def vote(self, sample: Sample) -> Sample:
        """Vote on one sample.

        Args:
            sample: its outputs are a list with the outputs of each model. If `post_processed`, its meta is a list, too,
                since every post-processing may change it; inputs and targets are those of the first model.

        Returns:
            a sample with the voted outputs. If not `post_processed`, these have the form of those of a single model.
        """

    def finalize_sample(self, sample: Sample) -> Sample:
        """Change a voted sample, at the very end; default: do not."""
        return sample


class MeanVoter(MultiModelVoter[Any]):
    """Mean of floating point outputs; majority of others, by element (the first model in a tie)."""

    post_processed = False

    def vote(self, sample: Sample) -> Sample:
        by_model: Sequence[dict[str, Any]] = sample.outputs
        voted = {}
        for name in by_model[0]:
            voted[name] = _vote(name, [outputs[name] for outputs in by_model])
        return sample.new_outputs(voted)


def stacked_votes(name: str, values: Sequence[Any]) -> np.ndarray:
    """Return the votes of a batch for one output as one array.

    Raises:
        TfaipError: if their shapes differ.
    """
    shapes = list(dict.fromkeys(np.shape(value) for value in values))
    if len(shapes) > 1:
        raise TfaipError(
            f"the vote gives output {name!r} in different shapes ({_texts(shapes)}) in one batch, expected one shape, "
            "as of a single model: let the voter pad it, or vote after the post-processing (post_processed = True)"
        )
    return np.stack(values)


def _texts(shapes: Sequence[tuple[int, ...]]) -> str:
    return ", ".join(str(list(shape)) for shape in shapes)


def _vote(name: str, values: Sequence[Any]) -> Any:
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) > 1:
        shapes = _texts([array.shape for array in arrays])
        raise TfaipError(
            f"the models give output {name!r} in different shapes ({shapes}): vote in another way with a "
            "MultiModelVoter of this scenario"
        )
    stacked = np.stack(arrays)
    if stacked.dtype.kind in "fcV":  # V: bfloat16 and the like
        # The sum of float16 values may exceed its range.
        return stacked.mean(axis=0, dtype=np.promote_types(stacked.dtype, np.float32)).astype(stacked.dtype)
    votes = (stacked[:, None] == stacked[None]).sum(axis=1)
    return np.take_along_axis(stacked, votes.argmax(axis=0, keepdims=True), axis=0)[0]
