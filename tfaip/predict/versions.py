"""Versions of a sample: the same sample as each of several models predicted it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from itertools import tee, zip_longest
from operator import itemgetter
from typing import TypeAlias

from tfaip.data.pipeline.batching import Batch
from tfaip.data.pipeline.datapipeline import DataPipeline
from tfaip.data.pipeline.definitions import Sample
from tfaip.errors import TfaipError
from tfaip.predict.modelpass import samples_of
from tfaip.util.typing import TensorDict

Versions: TypeAlias = tuple[Sample, ...]


def versions_of(batch: Batch, outputs: Sequence[TensorDict]) -> list[Versions]:
    """Return the samples of a batch, each as all models predicted it.

    Args:
        batch: what entered the models.
        outputs: what each model gave for it.
    """
    # Copies: post-processing may write into a sample, which must not change that of another model.
    by_model = [samples_of(deepcopy(batch), one) for one in outputs]
    return list(zip(*by_model, strict=True))


def process_outputs(versions: Iterable[Versions], pipelines: Sequence[DataPipeline]) -> list[Iterator[Sample]]:
    """Run the post-processing of each pipeline on its version of the samples.

    Args:
        versions: of all samples, as many as there are pipelines.
        pipelines: that of each model.

    Returns:
        the processed samples of each model; to be read in parallel, since samples wait in memory for
        the slowest reader.
    """
    copies = tee(versions, len(pipelines))
    return [one.process_output(map(itemgetter(number), copies[number])) for number, one in enumerate(pipelines)]


def same_samples(streams: Sequence[Iterator[Sample]]) -> Iterator[Versions]:
    """Read the processed samples of all models in parallel.

    Raises:
        TfaipError: if the post-processing of one model gives more samples than that of another.
    """
    for versions in zip_longest(*streams):
        if any(version is None for version in versions):
            raise TfaipError(
                "the post-processing of the models gives different numbers of samples, which cannot vote: vote on the "
                "outputs of the models instead (post_processed of the voter)"
            )
        yield versions
