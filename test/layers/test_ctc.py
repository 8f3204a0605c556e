"""CTC: the loss and its gradients, decoders, and forced alignment, by sums over all paths in plain Python."""

import itertools
import math
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from tfaip.layers.ctc import ctc_greedy_decode, ctc_loss
from tfaip.layers.ctcalignment import ctc_align, ctc_beam_search

Labels = tuple[int, ...]
FRAMES = np.array([6, 6, 5, 4, 1, 6, 0, 3, 6])
TRANSCRIPTS = [[1, 2], [1, 1], [], [2, 1, 2], [1], [2, 2, 2], [], [1, 2, 1], [1, 2, 2, 1, 2]]
CLASSES = 4


def logits(rows: int = len(FRAMES)) -> np.ndarray:
    return np.random.default_rng(1).normal(0, 2, (len(FRAMES), 6, CLASSES)).astype("float32")[:rows]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    scores = logits.astype("float64")
    with np.errstate(divide="ignore"):
        return np.log(np.exp(scores)) - np.log(np.exp(scores).sum(-1, keepdims=True))


def collapse(path: Any, blank: int) -> Labels:
    """Labels of a path: repetitions merged, without blanks."""
    return tuple(int(label) for label, _ in itertools.groupby(path) if label != blank)


@cache
def _paths(frames: int, classes: int) -> np.ndarray:
    return np.array(list(itertools.product(range(classes), repeat=frames)), int).reshape(classes**frames, frames)


def all_transcripts(logits: np.ndarray, blank: int = 0, of_best: bool = False) -> dict[Labels, float]:
    """Log-probability of every transcript that is possible: of all its paths or of the best one."""
    log_probs = log_softmax(logits)
    frames, classes = log_probs.shape
    found: dict[Labels, float] = defaultdict(lambda: -np.inf)
    for path in _paths(frames, classes):
        score = float(log_probs[np.arange(frames), path].sum())
        labels = collapse(path, blank)
        found[labels] = max(found[labels], score) if of_best else float(np.logaddexp(found[labels], score))
    return found


def padded(transcripts: list[list[int]], value: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels and their lengths."""
    lengths = np.array([len(labels) for labels in transcripts])
    labels = np.full((len(transcripts), max(lengths)), value)
    for row, transcript in zip(labels, transcripts, strict=True):
        row[: len(transcript)] = transcript
    return labels, lengths


def value_and_gradient(
    function: Callable[[Any], Any], x: np.ndarray, jit_compile: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Of a loss per sample, the gradient of its sum; JAX always compiles."""
    if keras.backend.backend() == "jax":
        import jax

        values = jax.jit(function)(x)
        return np.asarray(values), np.asarray(jax.jit(jax.grad(lambda x: function(x).sum()))(x))
    import tensorflow as tf

    @tf.function(autograph=False, jit_compile=jit_compile)
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
    rows = zip(x, FRAMES, transcripts, strict=True)
    expected = [-all_transcripts(row[:frames], index)[tuple(labels)] for row, frames, labels in rows]
    assert np.isfinite(expected).all()
    for value, as_columns in ((-1, False), (0, True), (99, False)):
        labels, sizes = padded(transcripts, value)
        lengths = (sizes[:, None], FRAMES[:, None]) if as_columns else (sizes, FRAMES)
        found = ops.convert_to_numpy(ctc_loss(labels, x, *lengths, blank))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_gradients_are_those_of_all_paths() -> None:
    """By differences of the slow sum in float64; nothing reaches the padding. XLA compiles the same."""
    x = logits()
    labels, sizes = padded(TRANSCRIPTS)
    loss, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, FRAMES), x)
    compiled = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, FRAMES), x, jit_compile=True)
    for found, value in zip(compiled, (loss, gradient), strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5)
    for row, frames in enumerate(FRAMES):
        np.testing.assert_array_equal(gradient[row, frames:], 0)
    for row, frame, label in [(0, 0, 1), (0, 5, 0), (1, 3, 1), (3, 2, 3), (5, 1, 2), (8, 4, 0)]:
        around = []
        for step in (1e-4, -1e-4):
            moved = x[row, : FRAMES[row]].astype("float64")
            moved[frame, label] += step
            around.append(-all_transcripts(moved)[tuple(TRANSCRIPTS[row])])
        assert gradient[row, frame, label] == pytest.approx((around[0] - around[1]) / 2e-4, abs=2e-5)


@pytest.mark.parametrize("value", [0.0, 7.0, pytest.param(math.inf, marks=pytest.mark.backend)])
def test_a_sample_without_alignment_takes_no_part(value: float) -> None:
    x, frames = logits(4), np.array([6, 6, 2, 0])
    labels, sizes = padded([[1, 2], [1, 1, 1, 1], [1, 2, 3], [1]])
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, frames, infeasible=value), x)
    assert losses[1:].tolist() == [value] * 3
    np.testing.assert_array_equal(gradient[1:], 0)
    assert losses[0] == pytest.approx(-all_transcripts(x[0])[1, 2], rel=1e-5)
    assert np.abs(gradient[0]).max() > 0.1


@pytest.mark.backend
def test_forbidden_classes_have_the_logit_minus_infinity() -> None:
    x = logits(3)
    x[:, :, 3] = -np.inf
    x[2, :, 1] = -np.inf
    labels, sizes = padded([[1, 2], [3], [1]])
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, sizes, np.array([6, 6, 6])), x)
    assert losses[0] == pytest.approx(-all_transcripts(x[0])[1, 2], rel=1e-5)
    assert losses[1:].tolist() == [0, 0]
    assert np.isfinite(gradient).all()
    # A blank of probability e^-2000 between equal labels: its cost is part of the loss.
    x = np.zeros((1, 3, 3), "float32")
    x[:, :, 0] = -2000.0
    losses = ops.convert_to_numpy(ctc_loss(np.array([[1, 1]]), x, np.array([2]), np.array([3])))
    assert losses[0] == pytest.approx(2000 + 3 * np.log(2), rel=1e-6)


@pytest.mark.slow
@pytest.mark.backend
def test_batches_without_frames_or_labels() -> None:
    none = np.zeros(3, int)
    for frames, labels, expected in ((0, 2, 7.0), (0, 0, 0.0), (4, 0, 0.0)):
        x = np.ones((3, frames, CLASSES), "float32")
        losses = ctc_loss(np.ones((3, labels), int), x, none + labels, none, infeasible=7.0)
        assert ops.convert_to_numpy(losses).tolist() == [expected] * 3


@pytest.mark.parametrize("dtype", [pytest.param("float16", marks=pytest.mark.backend), "bfloat16"])
def test_scores_of_16_bits_give_float32(dtype: str) -> None:
    x = ops.cast(logits(1), dtype)
    losses = ctc_loss(np.array([[1, 2]]), x, np.array([2]), np.array([6]))
    assert keras.backend.standardize_dtype(losses.dtype) == "float32"
    rounded = np.asarray(ops.cast(x, "float32"))
    assert ops.convert_to_numpy(losses)[0] == pytest.approx(-all_transcripts(rounded[0])[1, 2], rel=1e-5)


@pytest.mark.slow
@pytest.mark.backend
def test_long_sequences_keep_exact_gradients() -> None:
    """The gradient of a frame sums to 0 over the classes, and the loss is that of the forward algorithm in float64."""
    labels = np.arange(100)[None] % 7 + 1
    x = np.random.default_rng(2).normal(0, 3, (1, 1000, 8)).astype("float32")
    losses, gradient = value_and_gradient(lambda x: ctc_loss(labels, x, np.array([100]), np.array([1000])), x)
    assert np.abs(gradient.sum(axis=2)).max() < 1e-5
    assert losses.tolist() == pytest.approx([2756.0177049249], rel=1e-6)


@pytest.mark.parametrize(
    ("blank", "padding"), [(0, -1), pytest.param(3, -1, marks=pytest.mark.backend), (-1, -1), (0, 9)]
)
def test_greedy_decoding_is_the_best_path(blank: int, padding: int) -> None:
    x = logits()
    x[0, :] = [3, 1, 1, 0]  # the same class in all frames
    decoded = ctc_greedy_decode(x, FRAMES[:, None], blank, padding)
    labels, sizes, scores = (ops.convert_to_numpy(value) for value in decoded)
    assert (labels.shape, labels.dtype, sizes.dtype) == ((9, 6), np.int32, np.int32)
    for row, frames in enumerate(FRAMES):
        assert tuple(labels[row, : sizes[row]].tolist()) == collapse(x[row, :frames].argmax(-1), blank % 4)
        assert (labels[row, sizes[row] :] == padding).all()
        assert scores[row] == pytest.approx(log_softmax(x[row, :frames]).max(-1).sum(), abs=1e-5)


@pytest.mark.parametrize("blank", [0, 2, -1])
def test_a_wide_beam_finds_all_transcripts(blank: int) -> None:
    for row in logits(3)[:, :4]:
        every = all_transcripts(row, blank % 4)
        found = ctc_beam_search(row, 400, blank)
        assert {tuple(labels): score for labels, score in found} == pytest.approx(dict(every))
        assert [score for _, score in found] == pytest.approx(sorted(every.values(), reverse=True))


def test_a_narrow_beam_keeps_the_best_prefixes_of_each_frame() -> None:
    # P(blank) and P(1): 0.4 0.6, then 0.6 0.4. Transcripts: () 0.24, (1) 0.76.
    probabilities = np.log([[0.4, 0.6], [0.6, 0.4]])
    assert ctc_beam_search(probabilities, 2) == [([1], pytest.approx(np.log(0.76))), ([], pytest.approx(np.log(0.24)))]
    assert ctc_beam_search(probabilities, 1) == [([1], pytest.approx(np.log(0.6)))]  # () was lost, and its way to (1)
    assert ctc_beam_search(np.zeros((0, 3))) == [([], 0.0)]


@pytest.mark.parametrize("labels", [[1, 2], [1, 1], [], [2, 1, 2], [2, 2, 1], [1], [1, 2, 1, 2, 1, 2]])
def test_the_alignment_is_the_best_path(labels: list[int]) -> None:
    for seed, blank in itertools.product(range(3), (0, 3, -1)):
        logits = np.random.default_rng(seed).normal(0, 2, (6, 4))
        found = ctc_align(logits, labels, blank)
        assert collapse(found.labels, blank % 4) == tuple(labels)
        score = log_softmax(logits)[np.arange(6), found.labels].sum()
        assert found.log_probability == pytest.approx(score)
        assert score == pytest.approx(all_transcripts(logits, blank % 4, of_best=True)[tuple(labels)])
        inside = found.positions[found.positions >= 0]
        assert [labels[position] for position in inside] == [label for label in found.labels if label != blank % 4]
        assert (np.diff(inside) >= 0).all()


def test_equal_labels_have_a_blank_between_them() -> None:
    logits = np.log([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    found = ctc_align(logits, [1, 1])
    assert (found.labels.tolist(), found.positions.tolist()) == ([0, 1, 1, 0, 1], [-1, 0, 0, -1, 1])
    assert found.log_probability == pytest.approx(5 * np.log(0.8))
    none = ctc_align(np.zeros((0, 3)), [])
    assert (none.labels.tolist(), none.log_probability) == ([], 0.0)


@pytest.mark.parametrize(
    ("logits", "labels", "blank", "message"),
    [
        (np.zeros((3, 3)), [1, 1, 2], 0, "3 frames have no alignment with 3 labels, which need at least 4 frames"),
        (np.zeros((3, 3)), [1, 0], 0, r"labels are \[1, 0\], expected a list of 0 to 2 without 0"),
        (np.zeros((1, 3, 3)), [1], 0, r"logits have the shape \[1, 3, 3\], expected \[time, class\]"),
        (np.zeros((4, 3)), [1], 3, "^blank is 3, expected a class from 0 to 2, or -1 for the last one$"),
        (np.full((4, 3), np.nan), [1], 0, "^logits have values that are no numbers, or infinite$"),
    ],
)
def test_what_cannot_be_aligned(logits: np.ndarray, labels: list[int], blank: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ctc_align(logits, labels, blank=blank)
