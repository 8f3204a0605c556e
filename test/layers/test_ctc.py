"""CTC: the loss and its gradients, decoders, and forced alignment, by sums over all paths in plain Python."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.layers.slowctc import all_transcripts, beam_search, best_alignment, collapse, log_softmax
from tfaip.layers.ctc import ctc_beam_search, ctc_greedy_decode, ctc_loss
from tfaip.layers.ctcalignment import ctc_align

FRAMES = np.array([6, 6, 5, 4, 1, 6, 0, 3, 6])
TRANSCRIPTS = [[1, 2], [1, 1], [], [2, 1, 2], [1], [2, 2, 2], [], [1, 2, 1], [1, 2, 2, 1, 2]]
CLASSES = 4


def logits(classes: int = CLASSES, frames: int = 6, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 2, (len(FRAMES), frames, classes)).astype("float32")


def padded(transcripts: list[list[int]], value: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and their lengths."""
    lengths = np.array([len(labels) for labels in transcripts])
    labels = np.full((len(transcripts), max(lengths)), value)
    for row, transcript in zip(labels, transcripts, strict=True):
        row[: len(transcript)] = transcript
    return labels, lengths


def value_and_gradient(function: Callable[[Any], Any], x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of a loss per sample, the gradient of its sum."""
    if keras.backend.backend() == "jax":
        import jax

        values = jax.jit(function)(x)
        return np.asarray(values), np.asarray(jax.jit(jax.grad(lambda x: function(x).sum()))(x))
    import tensorflow as tf

    @tf.function(autograph=False)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            values = function(x)
        return values, tape.gradient(values, x)

    values, gradient = step(tf.constant(x))
    return values.numpy(), gradient.numpy()


@pytest.mark.parametrize("blank", [0, 2, pytest.param(-1, marks=pytest.mark.backend)])
def test_the_loss_is_that_of_all_paths(blank: int) -> None:
    index = blank % CLASSES
    free = [label for label in range(CLASSES) if label != index]
    transcripts = [[free[label] for label in labels] for labels in TRANSCRIPTS]
    x = logits()
    expected = [
        -all_transcripts(row[:frames], index)[tuple(labels)]
        for row, frames, labels in zip(x, FRAMES, transcripts, strict=True)
    ]
    assert np.isfinite(expected).all()
    for value in (-1, 0, 99):
        labels, sizes = padded(transcripts, value)
        found = ops.convert_to_numpy(ctc_loss(labels, x, sizes, FRAMES, blank))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    found = ops.convert_to_numpy(ctc_loss(labels, x, sizes[:, None], FRAMES[:, None], blank))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_gradients_are_those_of_all_paths() -> None:
    """By differences of the slow sum in float64; nothing reaches the padding."""
    x = logits()
    labels, sizes = padded(TRANSCRIPTS, 0)
    _, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, FRAMES), x)
    for row, frames in enumerate(FRAMES):
        np.testing.assert_array_equal(gradient[row, frames:], 0)
    for row, frame, label in [(0, 0, 1), (0, 5, 0), (1, 3, 1), (3, 2, 3), (5, 1, 2), (8, 4, 0)]:
        around = []
        for step in (1e-4, -1e-4):
            moved = x[row, : FRAMES[row]].astype("float64")
            moved[frame, label] += step
            around.append(-all_transcripts(moved, 0)[tuple(TRANSCRIPTS[row])])
        assert gradient[row, frame, label] == pytest.approx((around[0] - around[1]) / 2e-4, abs=2e-5)


@pytest.mark.parametrize("value", [0.0, 7.0, pytest.param(math.inf, marks=pytest.mark.backend)])
def test_a_sample_without_alignment_takes_no_part(value: float) -> None:
    x = logits()[:4]
    labels, sizes = padded([[1, 2], [1, 1, 1, 1], [1, 2, 3], [1]], 0)
    frames = np.array([6, 6, 2, 0])
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, frames, infeasible=value), x)
    assert losses[1:].tolist() == [value] * 3
    np.testing.assert_array_equal(gradient[1:], 0)
    assert losses[0] == pytest.approx(-all_transcripts(x[0], 0)[1, 2], rel=1e-5)
    assert np.abs(gradient[0]).max() > 0.1


@pytest.mark.backend
def test_forbidden_classes_have_the_logit_minus_infinity() -> None:
    x = logits()[:3]
    x[:, :, 3] = -np.inf
    x[2, :, 1] = -np.inf
    labels, sizes = padded([[1, 2], [3], [1]], 0)
    frames = np.array([6, 6, 6])
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, frames), x)
    assert losses[0] == pytest.approx(-all_transcripts(x[0], 0)[1, 2], rel=1e-5)
    assert losses[1:].tolist() == [0, 0]
    assert np.isfinite(gradient).all()
    # A blank of probability e^-2000 between equal labels: its cost is part of the loss.
    x = np.zeros((1, 3, 3), "float32")
    x[:, :, 0] = -2000.0
    losses = ops.convert_to_numpy(ctc_loss(np.array([[1, 1]]), x, np.array([2]), np.array([3])))
    assert losses[0] == pytest.approx(2000 + 3 * np.log(2), rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("batch", [pytest.param(1, marks=pytest.mark.backend), 3])
def test_batches_without_frames(batch: int) -> None:
    """No frames are an alignment of the empty transcript alone; also if the axes are empty."""
    none = np.zeros(batch, int)
    for frames, labels in ((4, 2), (4, 0), (0, 2), (0, 0)):
        x = np.random.default_rng(3).normal(size=(batch, frames, CLASSES)).astype("float32")
        for sizes, expected in ((none, 0.0), (none + labels, 7.0 if labels else 0.0)):
            transcripts = np.ones((batch, labels), int)
            losses, gradient = value_and_gradient(lambda x: ctc_loss(transcripts, x, sizes, none, infeasible=7.0), x)  # noqa: B023
            assert losses.tolist() == [expected] * batch
            np.testing.assert_array_equal(gradient, np.zeros_like(x))


@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.backend), "bfloat16"])
def test_scores_of_16_bits_give_float32(dtype: str) -> None:
    x = ops.cast(logits()[:1], dtype)
    losses = ctc_loss(np.array([[1, 2]]), x, np.array([2]), np.array([6]))
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    rounded = np.asarray(ops.cast(x, "float32"))
    assert ops.convert_to_numpy(losses)[0] == pytest.approx(-all_transcripts(rounded[0], 0)[1, 2], rel=1e-5)


@pytest.mark.slow
@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="JAX always compiles")
def test_xla_compiles_the_step() -> None:
    import tensorflow as tf

    x = logits()
    labels, sizes = padded(TRANSCRIPTS, 0)

    @tf.function(jit_compile=True, autograph=False)
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            losses = ctc_loss(labels, x, sizes, FRAMES)
        return losses, tape.gradient(losses, x)

    expected = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, FRAMES), x)
    for found, value in zip(step(tf.constant(x)), expected, strict=True):
        np.testing.assert_allclose(found.numpy(), value, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_long_sequences_keep_exact_gradients() -> None:
    """The gradient of a frame sums to 0 over the classes, and the loss is that of the forward algorithm in float64."""
    labels = np.arange(100)[None] % 7 + 1
    x = np.random.default_rng(2).normal(0, 3, (1, 1000, 8)).astype("float32")
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, np.array([100]), np.array([1000])), x)
    assert np.abs(gradient.sum(axis=2)).max() < 1e-5
    states = [0]
    for label in labels[0].tolist():
        states += [label, 0]
    alpha = np.full(len(states), -np.inf)
    log_probs = log_softmax(x[0])
    alpha[:2] = log_probs[0, states[:2]]
    for frame in log_probs[1:]:
        new = alpha.copy()
        new[1:] = np.logaddexp(new[1:], alpha[:-1])
        for state in range(3, len(states), 2):
            if states[state] != states[state - 2]:
                new[state] = np.logaddexp(new[state], alpha[state - 2])
        alpha = new + frame[states]
    np.testing.assert_allclose(losses, [-np.logaddexp(alpha[-1], alpha[-2])], rtol=1e-6)


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
    assert (labels.shape, labels.dtype, sizes.dtype) == ((9, 6), np.int32, np.int32)
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


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [], [2, 1, 2], [2, 2, 1], [1], [1, 2, 1, 2, 1, 2]])
def test_the_alignment_is_the_best_path(labels: list[int]) -> None:
    for seed, blank in itertools.product(range(5), (0, 3, -1)):
        logits = np.random.default_rng(seed).normal(0, 2, (6, 4))
        found = ctc_align(logits, labels, blank)
        assert collapse(found.labels, blank % 4) == tuple(labels)
        score = log_softmax(logits)[np.arange(6), found.labels].sum()
        assert found.log_probability == pytest.approx(score)
        assert score == pytest.approx(best_alignment(logits, tuple(labels), blank % 4))
        assert [labels[position] for position in found.positions if position >= 0] == [
            label for label in found.labels if label != blank % 4
        ]
        assert (np.diff(found.positions[found.positions >= 0]) >= 0).all()


def test_spans_of_labels() -> None:
    logits = np.log([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    found = ctc_align(logits, [1, 1])
    assert found.labels.tolist() == [0, 1, 1, 0, 1]
    assert found.positions.tolist() == [-1, 0, 0, -1, 1]
    assert found.spans() == [(1, 3), (4, 5)]
    assert found.log_probability == pytest.approx(5 * np.log(0.8))
    assert ctc_align(logits, []).spans() == []
    none = ctc_align(np.zeros((0, 3)), [])
    assert (none.labels.tolist(), none.log_probability) == ([], 0.0)


NO_CLASS = "^blank is {}, expected a class from 0 to 2, or -1 for the last one$"


@pytest.mark.parametrize(
    ("logits", "labels", "blank", "message"),
    [
        (np.zeros((0, 3)), [1], 0, "0 frames have no alignment with 1 labels, which need at least 1 frames"),
        (np.zeros((3, 3)), [1, 1, 2], 0, "3 frames have no alignment with 3 labels, which need at least 4 frames"),
        (np.zeros((3, 3)), [1, 0], 0, r"labels are \[1, 0\], expected a list of 0 to 2 without 0"),
        (np.zeros((3, 3)), [3], 0, r"labels are \[3\], expected"),
        (np.zeros((3, 3)), [[1]], 0, r"labels are \[\[1\]\], expected"),
        (np.zeros((1, 3, 3)), [1], 0, r"logits have the shape \[1, 3, 3\], expected \[time, class\]"),
        *((np.zeros((4, 3)), [1], blank, NO_CLASS.format(blank)) for blank in (3, -4)),
        (np.full((4, 3), np.nan), [1], 0, "^logits have values that are no numbers, or infinite$"),
    ],
)
def test_what_cannot_be_aligned(logits: np.ndarray, labels: list[int], blank: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ctc_align(logits, labels, blank=blank)
