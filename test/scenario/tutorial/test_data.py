"""The tutorial's images: numbers, shapes, split, and what is said where they cannot be had."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from test.support.commands import finish_command, start_python
from tfaip.data.pipeline.definitions import PipelineMode
from tfaip.scenario.tutorial.full.data import TutorialData, TutorialGenerator
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images


@pytest.mark.parametrize(("part", "size"), [(Part.TRAIN, 1437), (Part.VAL, 360)])
def test_digits(part: Part, size: int) -> None:
    images, labels = load_images(Dataset.DIGITS, part)
    assert (images.shape, images.dtype) == ((size, 8, 8, 1), np.uint8)
    assert (labels.shape, labels.dtype) == ((size, 1), np.int32)
    assert (images.min(), images.max()) == (0, 255)
    assert set(labels[:, 0]) == set(range(10))


def test_every_fifth_digit_is_for_the_validation() -> None:
    from sklearn.datasets import load_digits

    raw = load_digits()
    images, labels = load_images(Dataset.DIGITS, Part.VAL)
    assert labels[:, 0].tolist() == raw.target[::5].tolist()
    # Brightness 0..16 becomes 0..255, rounded down.
    assert images[1, :, :, 0].tolist() == (raw.images[5] * 255 // 16).astype(int).tolist()


def test_generator_yields_rows_with_their_number() -> None:
    generator = TutorialGenerator(part=Part.VAL, data=TutorialData()).create(PipelineMode.EVALUATION)
    images, labels = load_images(Dataset.DIGITS, Part.VAL)
    samples = list(generator.generate())
    assert len(generator) == len(samples) == 360
    assert [sample.meta for sample in samples] == list(range(360))
    assert np.array_equal(samples[7].inputs["img"], images[7])
    assert samples[7].targets["label"].tolist() == labels[7].tolist()


@pytest.mark.parametrize(("dataset", "size"), [(Dataset.DIGITS, 8), (Dataset.MNIST, 28), (Dataset.FASHION_MNIST, 28)])
def test_specs_follow_the_dataset(dataset: Dataset, size: int) -> None:
    data = TutorialData(dataset=dataset).create()
    assert data.input_layer_specs()["img"].shape == (size, size, 1)
    assert data.target_layer_specs()["label"].dtype == "int32"


@pytest.mark.slow
def test_without_network_one_line_says_what_to_do(tmp_path: Path) -> None:
    code = """
from tfaip.errors import UsageError
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images
try:
    load_images(Dataset.MNIST, Part.TRAIN)
except UsageError as error:
    print("ERROR", error)
"""
    nowhere = "http://127.0.0.1:9"
    proxies = {name: nowhere for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    env = {"KERAS_HOME": str(tmp_path), "KERAS_BACKEND": "jax", "no_proxy": "", **proxies}
    result = finish_command(start_python("-c", code, env=env))
    (line,) = (line for line in result.stdout.splitlines() if line.startswith("ERROR"))
    assert line.startswith("ERROR the data set 'mnist' is not in Keras' cache and cannot be downloaded (")
    assert line.endswith("with --data.dataset digits")


def test_without_scikit_learn_one_line_says_what_to_install() -> None:
    code = """
import sys
sys.modules["sklearn"] = None
from tfaip.errors import UsageError
from tfaip.scenario.tutorial.full.datasets import Dataset, Part, load_images
try:
    load_images(Dataset.DIGITS, Part.TRAIN)
except UsageError as error:
    print(error)
"""
    result = finish_command(start_python("-c", code))
    assert result.stdout.strip().endswith("pip install scikit-learn"), result
