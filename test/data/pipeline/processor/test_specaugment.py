"""The processor SpecAugment: its masks and warp by the definition, and the random rule of the pipeline."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from test.layers.draws import mask_patterns, patterns, require_distribution
from tfaip import Data, PipelineMode, Sample, Spec
from tfaip.data.pipeline.processor.specaugment import SpecAugmentProcessor

DRAWS = 10_000


def draw(array: np.ndarray, count: int = DRAWS, **sizes: Any) -> np.ndarray:
    """The array, augmented so many times; what is not named is off."""
    off: dict[str, Any] = {"freq_masks": 0, "time_masks": 0, "time_warp": 0.0}
    processor: Any = SpecAugmentProcessor(**{**off, **sizes}, key="x")
    rng = np.random.default_rng(1)
    return np.stack([processor.apply(Sample(inputs={"x": array}), rng).inputs["x"] for _ in range(count)])


@pytest.mark.parametrize(("count", "widest"), [(1, 4), (2, 3), (1, 9), (3, 1)])
def test_frequency_masks_are_those_of_the_paper(count: int, widest: int) -> None:
    masked = draw(np.ones((2, 7)), freq_masks=count, freq_width=widest) == 0
    assert (masked[:, 0] == masked[:, 1]).all()
    require_distribution(patterns(masked[:, 0]), mask_patterns(7, min(widest, 7), count))


@pytest.mark.parametrize(("count", "widest", "share"), [(1, 4, 1.0), (2, 3, 1.0), (1, 6, 0.5)])
def test_time_masks_are_those_of_the_paper(count: int, widest: int, share: float) -> None:
    masked = draw(np.ones((8, 1)), time_masks=count, time_width=widest, time_share=share)[:, :, 0] == 0
    require_distribution(patterns(masked), mask_patterns(8, min(widest, int(share * 8)), count))


def test_distances_of_the_warp_are_uniform() -> None:
    warped = draw(np.arange(101.0)[:, None], time_warp=49.9)[:, :, 0]
    np.testing.assert_allclose(warped[:, [0, -1]], [[0, 100]] * DRAWS)
    distance = 50 / (warped[:, 1] - warped[:, 0]) - 50
    index = ((distance[np.abs(distance) < 45] + 45) / 4.5).astype(int)
    require_distribution([(number,) for number in index.tolist()], {(n,): 1 / 20 for n in range(20)})


def test_short_and_empty_samples() -> None:
    ramp = np.arange(9.0)[:, None]
    assert (draw(ramp, 20, time_warp=4.0) == ramp).all()
    assert (draw(np.arange(10.0)[:, None], 20, time_warp=4.0) != np.arange(10.0)[:, None]).any()
    assert draw(np.zeros((0, 4)), 2, time_masks=2, time_width=5, freq_masks=1, freq_width=2).shape == (2, 0, 4)


def test_types_and_further_axes_stay() -> None:
    image = np.full((20, 6, 3), 200, np.uint8)
    found = draw(image, 50, freq_masks=1, freq_width=3, time_masks=1, time_width=5, time_warp=3.0, value=7)
    assert (found.dtype, found.shape) == (np.uint8, (50, 20, 6, 3))
    assert set(np.unique(found)) == {7, 200}
    assert (image == 200).all(), "the sample of the generator was changed"


class Frames(Data):
    inputs = {"img": Spec(None, 4), "other": Spec(None, 4)}
    length_of = "img"


def test_the_key_is_the_one_that_gives_the_length() -> None:
    params = SpecAugmentProcessor(freq_masks=4, freq_width=4)
    processor: Any = params.create(Frames(), PipelineMode.TRAINING)
    ones = np.ones((5, 4))
    found = processor.apply(Sample(inputs={"img": ones, "other": ones}), np.random.default_rng(1)).inputs
    assert ((found["img"] == 0).any(), (found["other"] == 1).all()) == (True, True)
    for inputs, message in [
        ({"y": ones}, "SpecAugmentProcessor.key is 'img', the sample has 'y'"),
        ({"img": np.ones(3)}, r"the input 'img' has the shape \(3,\), expected \[time, frequency, ...\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            processor.apply(Sample(inputs=inputs), np.random.default_rng(1))
