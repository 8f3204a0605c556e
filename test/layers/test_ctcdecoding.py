"""CTC decoders against plain Python: the best path, and the best transcripts of a prefix beam search."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from keras import ops

from test.layers.slowctc import all_transcripts, beam_search, collapse, log_softmax
from tfaip.layers.ctc import ctc_beam_search, ctc_greedy_decode, ctc_loss

FRAMES = np.array([6, 6, 5, 4, 1, 6, 0, 3])


def logits(classes: int = 4, frames: int = 6, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (len(FRAMES), frames, classes)).astype("float32")


def found_by_search(x: np.ndarray, *arguments: int) -> list[list[tuple[float, tuple[int, ...]]]]:
    """Score and labels of the transcripts of each sample."""
    labels, sizes, scores = (ops.convert_to_numpy(value) for value in ctc_beam_search(x, FRAMES, *arguments))
    found = []
    for row in range(len(x)):
        paths = zip(scores[row], labels[row], sizes[row], strict=True)
        found.append([(float(score), tuple(path[:size].tolist())) for score, path, size in paths if score > -np.inf])
        for path, size in zip(labels[row], sizes[row], strict=True):
            assert (path[size:] == -1).all()
    return found


@pytest.mark.parametrize("blank", [0, pytest.param(3, marks=pytest.mark.backend), -1])
def test_greedy_decoding_is_the_best_path(blank: int) -> None:
    x = logits()
    x[0, :] = [3, 1, 1, 0]  # the same class in all frames
    labels, sizes, scores = (ops.convert_to_numpy(value) for value in ctc_greedy_decode(x, FRAMES[:, None], blank))
    assert (labels.shape, labels.dtype, sizes.dtype) == ((8, 6), np.int32, np.int32)
    for row, frames in enumerate(FRAMES):
        expected = collapse(x[row, :frames].argmax(-1), blank % 4)
        assert tuple(labels[row, : sizes[row]].tolist()) == expected
        assert (labels[row, sizes[row] :] == -1).all()
        assert scores[row] == pytest.approx(log_softmax(x[row, :frames]).max(-1).sum(), abs=1e-5)


def test_the_padding_can_be_chosen() -> None:
    labels, sizes, _ = ctc_greedy_decode(logits(), FRAMES, padding=0)
    inside = np.arange(6) < ops.convert_to_numpy(sizes)[:, None]
    assert (ops.convert_to_numpy(labels)[~inside] == 0).all()
    labels, sizes, _ = ctc_beam_search(logits(), FRAMES, 2, 2, padding=7)
    inside = np.arange(6) < ops.convert_to_numpy(sizes)[:, :, None]
    assert (ops.convert_to_numpy(labels)[~inside] == 7).all()


@pytest.mark.parametrize("blank", [0, pytest.param(2, marks=pytest.mark.backend), -1])
def test_a_wide_beam_finds_the_best_transcripts_of_all(blank: int) -> None:
    x = logits()
    for row, found in enumerate(found_by_search(x, 400, 5, blank)):
        every = all_transcripts(x[row, : FRAMES[row]], blank % 4)
        best = sorted(((score, labels) for labels, score in every.items()), reverse=True)[:5]
        assert [labels for _, labels in found] == [labels for _, labels in best]
        np.testing.assert_allclose([s for s, _ in found], [s for s, _ in best], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("width", "paths"), [(1, 1), pytest.param(3, 3, marks=pytest.mark.backend), (8, 2)])
def test_a_narrow_beam_is_that_of_plain_python(width: int, paths: int) -> None:
    for classes, frames, seed in [(3, 6, 2), (12, 6, 3)]:
        x = logits(classes, frames, seed)
        for row, found in enumerate(found_by_search(x, width, paths)):
            expected = beam_search(x[row, : FRAMES[row]], 0, width)[:paths]
            assert [labels for _, labels in found] == [labels for _, labels in expected]
            np.testing.assert_allclose([s for s, _ in found], [s for s, _ in expected], rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_prefixes_that_leave_the_beam_and_return() -> None:
    """Long samples of few classes, where the same prefixes are dropped and found again by other ways."""
    x = np.random.default_rng(5).normal(0, 1, (8, 30, 3)).astype("float32")
    frames = np.array([30, 30, 25, 20, 30, 27, 30, 17])
    labels, sizes, scores = (ops.convert_to_numpy(value) for value in ctc_beam_search(x, frames, 6, 6))
    for row, length in enumerate(frames):
        expected = beam_search(x[row, :length], 0, 6)
        found = [tuple(path[:size].tolist()) for path, size in zip(labels[row], sizes[row], strict=True)]
        assert found == [prefix for _, prefix in expected]
        assert len(set(found)) == 6
        np.testing.assert_allclose(scores[row], [score for score, _ in expected], rtol=1e-5)


@pytest.mark.backend
def test_classes_that_are_impossible() -> None:
    x = logits()
    x[:, :, 2] = -np.inf
    for found in found_by_search(x, 6, 6):
        assert all(2 not in labels for _, labels in found)


def test_what_cannot_work_is_said() -> None:
    with pytest.raises(ValueError, match="top_paths is 3, expected 1 to beam_width, which is 2"):
        ctc_beam_search(logits(), FRAMES, 2, 3)
    with pytest.raises(ValueError, match="loop over frames, which symbolic tensors and .keras files cannot hold"):
        ctc_beam_search(keras.Input((None, 4)), keras.Input((), dtype="int32"))
    message = "^blank is 4, expected a class from 0 to 3, or -1 for the last one$"
    for decode in (ctc_greedy_decode, ctc_beam_search):
        with pytest.raises(ValueError, match=message):
            decode(logits(), FRAMES, blank=4)
    with pytest.raises(ValueError, match=message):
        ctc_loss(np.ones((1, 1), "int32"), logits(), [1], FRAMES, blank=4)
