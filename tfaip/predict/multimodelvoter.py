"""Votes: the outputs of several models for a sample become one."""

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


def stacked(name: str, values: Sequence[Any], of: str) -> np.ndarray:
    """Return the values of one output, of the models for a sample or of the vote for a batch, as one array."""
    shapes = {str(list(np.shape(value))) for value in values}
    if len(shapes) > 1:
        raise TfaipError(
            f"{of} give output {name!r} in different shapes ({', '.join(sorted(shapes))}): pad them in a "
            "MultiModelVoter of this scenario, or vote after the post-processing (post_processed = True)"
        )
    return np.stack([np.asarray(value) for value in values])


def _vote(name: str, values: Sequence[Any]) -> Any:
    votes = stacked(name, values, "the models")
    if votes.dtype.kind in "fcV":  # V: bfloat16 and the like
        # The sum of float16 values may exceed its range.
        return votes.mean(axis=0, dtype=np.promote_types(votes.dtype, np.float32)).astype(votes.dtype)
    counts = (votes[:, None] == votes[None]).sum(axis=1)
    return np.take_along_axis(votes, counts.argmax(axis=0, keepdims=True), axis=0)[0]
