"""The masks of the processor SpecAugment in a training: for any number of workers, and after a resume."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

from test.data.processors.frames import Frames, Ones
from test.trainer.epochs import batches_of_epochs, setup_of
from test.trainer.line import LineModelParams, by_hand
from tfaip.data.pipeline.processor.specaugment import SpecAugmentProcessor
from tfaip.model.graphbase import GraphBase
from tfaip.scenario.scenario import Scenario
from tfaip.trainer.build import Training
from tfaip.util.typing import TensorDict

# Meta and masked elements of each sample of a batch.
Masks = list[tuple[int, bytes]]


class MeanGraph(GraphBase[Any]):
    def __init__(self, params: Any, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.line = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.line(keras.ops.mean(inputs["x"], axis=(1, 2))[:, None])}


class MeanModelParams(LineModelParams):
    def graph_cls(self) -> type[GraphBase[Any]]:
        return MeanGraph


class MaskedScenario(Scenario):
    data, model, train, val = Frames, MeanModelParams, Ones(count=7), Ones()
    processors = [SpecAugmentProcessor(freq_masks=1, freq_width=2, time_masks=2, time_width=2, time_warp=1.0)]


def masked(workers: int = 0) -> Training:
    """Two epochs of 10 samples: a pass and a half each, in batches of 2."""
    params = by_hand(MaskedScenario.default_trainer_params(), None, epochs=2, samples_per_epoch=10)
    setup = params.gen.setup.train
    setup.batch_size, setup.shuffle_buffer_size = 2, -1
    setup.num_processes, setup.worker_start_s = workers, 0.0
    return setup_of(params, MaskedScenario)


def masks(batch: Any) -> Masks:
    return [(meta, (x == 0).tobytes()) for meta, x in zip(batch.meta, batch.inputs["x"], strict=True)]


@pytest.fixture(scope="module")
def whole() -> list[list[Masks]]:
    return batches_of_epochs(masked(), masks)


def test_every_pass_has_other_masks(whole: list[list[Masks]]) -> None:
    samples = [sample for epoch in whole for batch in epoch for sample in batch]
    assert len(samples) == 20
    assert {meta for meta, _ in samples} == set(range(7))
    assert len({mask for _, mask in samples}) > 10
    for meta in range(7):
        drawn = [mask for other, mask in samples if other == meta]
        assert len(drawn) >= 2
        assert any(np.frombuffer(mask, bool).any() for mask in drawn)
    assert any(len({mask for other, mask in samples if other == meta}) > 1 for meta in range(7))


def test_workers_draw_the_same_masks(whole: list[list[Masks]]) -> None:
    assert batches_of_epochs(masked(2), masks) == whole


@pytest.mark.parametrize(("before", "after", "done"), [(0, 2, 3), (1, 0, 4)])
def test_a_resume_draws_the_same_masks(whole: list[list[Masks]], before: int, after: int, done: int) -> None:
    first, second = masked(before), masked(after)
    (begun,) = batches_of_epochs(first, masks, stop_after=done)
    second.state.progress = first.state.progress
    rest = batches_of_epochs(second, masks)
    assert [begun + rest[0], *rest[1:]] == whole
