"""From the outputs of several models to one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from tfaip.data.databaseparams import DataBaseParams
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError

P = TypeVar("P", bound=DataBaseParams)


class MultiModelVoter(ABC, Generic[P]):
    """Votes on what several models gave for a sample. Override `vote`.

    Args:
        data_params: params of the data.
    """

    def __init__(self, data_params: P) -> None:
        self.data_params = data_params

    @abstractmethod
    def vote(self, sample: Sample) -> Sample:
        """Vote on one sample, before the post-processing.

        Args:
            sample: its outputs are a list with the outputs of each model.

        Returns:
            a sample with the voted outputs, in the form that one model gives.
        """

    def finalize_sample(self, sample: Sample) -> Sample:
        """The last touch, after the post-processing; default: none."""
        return sample


class MeanVoter(MultiModelVoter[Any]):
    """Means of floating point outputs; of others, element by element, what most models gave (the first of equals)."""

    def vote(self, sample: Sample) -> Sample:
        outputs: Sequence[dict[str, Any]] = sample.outputs
        return sample.new_outputs({name: _vote(name, [one[name] for one in outputs]) for name in outputs[0]})


def _vote(name: str, values: Sequence[Any]) -> Any:
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) > 1:
        raise TfaipError(
            f"the models give output {name!r} in different shapes ({', '.join(str(list(a.shape)) for a in arrays)}): "
            "vote in another way with a MultiModelVoter of this scenario"
        )
    stacked = np.stack(arrays)
    if np.issubdtype(stacked.dtype, np.floating):
        return stacked.mean(axis=0, dtype=np.promote_types(stacked.dtype, np.float32)).astype(stacked.dtype)
    votes = (stacked[:, None] == stacked[None]).sum(axis=1)
    return np.take_along_axis(stacked, votes.argmax(axis=0, keepdims=True), axis=0)[0]
