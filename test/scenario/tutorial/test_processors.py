"""The tutorial's processors, on images that were worked out by hand, and in a real pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.scenario.tutorial.full.processors import NormalizeParams, RandomShiftParams, shift
from tfaip.scenario.tutorial.full.scenario import TutorialScenario

IMAGE = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]])


@pytest.mark.parametrize(
    ("down", "right", "expected"),
    [
        (0, 0, [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
        (1, 0, [[0, 0, 0], [1, 2, 3], [4, 5, 6]]),
        (-1, 0, [[4, 5, 6], [7, 8, 9], [0, 0, 0]]),
        (0, 2, [[0, 0, 1], [0, 0, 4], [0, 0, 7]]),
        (1, -1, [[0, 0, 0], [2, 3, 0], [5, 6, 0]]),
        (3, -3, [[0, 0, 0], [0, 0, 0], [0, 0, 0]]),
    ],
)
def test_shift(down: int, right: int, expected: list[list[int]]) -> None:
    assert shift(IMAGE, down, right).tolist() == expected


def test_shift_keeps_channels_and_type() -> None:
    image = np.stack([IMAGE, -IMAGE], axis=-1).astype("uint8")
    moved = shift(image, 1, 1)
    assert moved.dtype == np.uint8
    assert np.array_equal(moved[1:, 1:], image[:2, :2])


def processed(mode: PipelineMode, seed: int = 0) -> list[np.ndarray]:
    """60 samples of a dot in the middle of a 5x5 image after the tutorial's processors."""
    dot = np.zeros((5, 5, 1), "uint8")
    dot[2, 2] = 255
    samples = [Sample(inputs={"img": dot}, targets={"label": [1]}) for _ in range(60)]
    data_params = TutorialScenario.default_params().data
    pipeline = data_params.pre_proc.create(DataPipelineParams(mode=mode), data_params)
    return [sample.inputs["img"] for sample in pipeline.apply(samples, seed=seed)]


@pytest.mark.parametrize("mode", [PipelineMode.EVALUATION, PipelineMode.PREDICTION])
def test_only_training_images_move(mode: PipelineMode) -> None:
    for image in processed(mode):
        assert image.dtype == np.float32
        assert image[2, 2, 0] == 1
        assert image.sum() == 1


def test_training_images_move_by_at_most_one_pixel_into_every_direction() -> None:
    places = {
        tuple(np.argwhere(image[..., 0] == 1)[0].tolist()) for image in processed(PipelineMode.TRAINING)
    }
    assert places == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}


def test_the_seed_decides_where_to() -> None:
    first, again, other = (processed(PipelineMode.TRAINING, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_shift_beyond_the_image_is_an_empty_image_at_most() -> None:
    data_params = TutorialScenario.default_params().data
    data_params.pre_proc = SequentialProcessorPipelineParams(processors=[RandomShiftParams(max_shift=100)])
    pipeline = data_params.pre_proc.create(DataPipelineParams(mode=PipelineMode.TRAINING), data_params)
    samples = [Sample(inputs={"img": IMAGE}, targets={"label": [1]}) for _ in range(50)]
    assert all(sample.inputs["img"].shape == (3, 3) for sample in pipeline.apply(samples))


def test_white_is_a_parameter() -> None:
    data_params = TutorialScenario.default_params().data
    data_params.pre_proc = SequentialProcessorPipelineParams(processors=[NormalizeParams(white=9)])
    pipeline = data_params.pre_proc.create(DataPipelineParams(mode=PipelineMode.PREDICTION), data_params)
    (sample,) = pipeline.apply([Sample(inputs={"img": IMAGE})])
    np.testing.assert_allclose(sample.inputs["img"], IMAGE / 9, rtol=1e-6)


def test_targets_alone_are_not_touched() -> None:
    processors = TutorialScenario.default_params().data.pre_proc.flatten_processors()
    assert [type(params) for params in processors] == [RandomShiftParams, NormalizeParams]
    assert not any(PipelineMode.TARGETS in params.modes for params in processors)


def test_negative_shift_is_refused() -> None:
    with pytest.raises(ValueError, match="max_shift is -1, expected 0 or a number of pixels"):
        RandomShiftParams(max_shift=-1)
