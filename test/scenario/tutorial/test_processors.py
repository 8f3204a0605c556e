"""The tutorial's images and processors, on images worked out by hand, and in a real pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from tfaip.data.databaseparams import DataPipelineParams
from tfaip.data.pipeline.definitions import PipelineMode, Sample
from tfaip.data.pipeline.processor.dataprocessor import DataProcessorParams
from tfaip.data.pipeline.processor.params import SequentialProcessorPipelineParams
from tfaip.scenario.tutorial.full.data import Dataset, Part, TutorialData, TutorialGenerator, load_images
from tfaip.scenario.tutorial.full.processors import Normalize, RandomShift
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


def dots_after(
    processors: list[DataProcessorParams], mode: PipelineMode, number: int = 60, seed: int = 0
) -> list[np.ndarray]:
    """Images that had one white pixel in the middle of 5x5 before the processors."""
    dot = np.zeros((5, 5, 1), "uint8")
    dot[2, 2] = 255
    samples = [Sample(inputs={"img": dot}, targets={"label": [1]}) for _ in range(number)]
    data_params = TutorialData(pre_proc=SequentialProcessorPipelineParams(processors=processors))
    pipeline = data_params.pre_proc.create(DataPipelineParams(mode=mode), data_params)
    return [sample.inputs["img"] for sample in pipeline.apply(samples, seed=seed)]


def place_of_white(image: np.ndarray) -> tuple[int, int]:
    ((row, column),) = np.argwhere(image[..., 0] == image.max())
    return int(row), int(column)


@pytest.mark.parametrize("mode", [PipelineMode.EVALUATION, PipelineMode.PREDICTION])
def test_only_training_images_move(mode: PipelineMode) -> None:
    processors = TutorialScenario.default_params().data.pre_proc.flatten_processors()
    assert [type(params) for params in processors] == [RandomShift, Normalize]
    for image in dots_after(processors, mode):
        assert image.dtype == np.float32
        assert (place_of_white(image), image.sum()) == ((2, 2), 1)
    (image,) = dots_after([Normalize(white=510)], mode, number=1)
    assert (image[2, 2, 0], image.sum()) == (0.5, 0.5)


def test_a_share_of_the_training_images_moves_where_the_seed_says() -> None:
    first, again, other = (dots_after([RandomShift(share=1)], PipelineMode.TRAINING, seed=seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    assert {place_of_white(image) for image in first} == {(row, col) for row in (1, 2, 3) for col in (1, 2, 3)}
    images = dots_after([RandomShift(share=0.25)], PipelineMode.TRAINING, number=900)
    # One of the nine shifts is none, so 200 are expected, give or take three times 12.5.
    assert 162 <= sum(place_of_white(image) != (2, 2) for image in images) <= 238
    assert {place_of_white(image) for image in dots_after([RandomShift(share=0)], PipelineMode.TRAINING)} == {(2, 2)}
    # A shift beyond the image is an empty image at most.
    images = dots_after([RandomShift(max_shift=100, share=1)], PipelineMode.TRAINING)
    assert {(image.shape, int(image.sum())) for image in images} == {((5, 5, 1), 0), ((5, 5, 1), 255)}


def test_the_generator_yields_every_fifth_digit_with_its_number() -> None:
    from sklearn.datasets import load_digits

    for part, size in ((Part.TRAIN, 1437), (Part.VAL, 360)):
        images, labels = load_images(Dataset.DIGITS, part)
        assert (images.shape, images.dtype) == ((size, 8, 8, 1), np.uint8)
        assert (labels.shape, labels.dtype, set(labels[:, 0])) == ((size, 1), np.int32, set(range(10)))
        assert (images.min(), images.max()) == (0, 255)
    raw = load_digits()
    generator = TutorialGenerator(part=Part.VAL, data=TutorialData()).create(PipelineMode.EVALUATION)
    samples = list(generator.generate())
    assert len(generator) == len(samples) == 360
    assert [sample.meta for sample in samples] == list(range(360))
    assert [sample.targets["label"].tolist() for sample in samples] == [[label] for label in raw.target[::5]]
    # Brightness 0..16 becomes 0..255, rounded down.
    assert samples[1].inputs["img"][..., 0].tolist() == (raw.images[5] * 255 // 16).astype(int).tolist()


def test_specs_follow_the_dataset() -> None:
    for dataset, size in ((Dataset.DIGITS, 8), (Dataset.MNIST, 28)):
        assert TutorialData(dataset=dataset).create().input_layer_specs()["img"].shape == (size, size, 1)
