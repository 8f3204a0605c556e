"""Connectionist temporal classification (CTC): loss and greedy decoding."""

import keras
from keras import ops

from tfaip.backend.active import backend
from tfaip.layers.ctcalignment import class_of_blank
from tfaip.util.typing import Tensor

# Logarithm of 0. With an infinity, gradients would be NaN.
LOG_ZERO = -1e30


def ctc_loss(
    labels: Tensor, logits: Tensor, label_lengths: Tensor, lengths: Tensor, blank: int = 0, infeasible: float = 0.0
) -> Tensor:
    """Return `-log P(labels | logits)` of each sample, `[batch]` (Graves et al., 2006).

    Unlike `keras.ops.ctc_loss` it is the same on all backends, also for samples without an alignment,
    batches of empty transcripts, logits of minus infinity, and a negative `blank`.

    Args:
        labels: transcripts, `[batch, label]`, whole numbers; those beyond the length do not matter.
        logits: scores of the classes or their log-probabilities, `[batch, time, class]`.
        label_lengths: labels of each transcript, `[batch]` or `[batch, 1]`.
        lengths: frames of each sample, `[batch]` or `[batch, 1]`.
        blank: class of the blank; -1: the last one.
        infeasible: loss of a sample without an alignment: it has fewer frames than labels plus
            repetitions of a label, or each alignment contains a logit of minus infinity. The
            gradient is 0. With `math.inf` the batch is handled as every non-finite loss.
    """
    log_probs = ops.maximum(log_probabilities(logits), LOG_ZERO)
    label_lengths, lengths = flat_lengths(label_lengths), flat_lengths(lengths)
    # One column more than the longest transcript: no axis is empty.
    labels = ops.pad(ops.cast(labels, "int32"), ((0, 0), (0, 1)))
    labels = ops.where(ops.arange(ops.shape(labels)[1])[None] < label_lengths[:, None], labels, 0)

    total = _log_probability(labels, log_probs, label_lengths, lengths, class_of_blank(blank, logits.shape[2]))
    return ops.where(total > 0.5 * LOG_ZERO, -total, ops.cast(infeasible, log_probs.dtype))


def log_probabilities(logits: Tensor) -> Tensor:
    """Return the log-probabilities of the classes, computed in at least 32 bits."""
    return ops.log_softmax(ops.cast(logits, keras.backend.result_type(logits.dtype, "float32")))


def flat_lengths(lengths: Tensor) -> Tensor:
    """Return lengths `[batch]` or `[batch, 1]` as int32 `[batch]`."""
    return ops.cast(ops.reshape(lengths, (-1,)), "int32")


def _log_probability(labels: Tensor, log_probs: Tensor, label_lengths: Tensor, lengths: Tensor, blank: int) -> Tensor:
    """Return the log-probability of all alignments, `[batch]`, by the forward algorithm.

    The state after a frame has the log-probabilities of all beginnings of an alignment: those that
    end with the blank after n labels, `[batch, label + 1]`, and those that end with label n,
    `[batch, label]`. Both are relative to the largest of the sample, and the sum of these, the
    third part, `[batch, 1]`, is kept apart: gradients depend on small differences of large numbers.
    """
    frames = ops.shape(log_probs)[1]
    of_labels = backend.take_classes(log_probs, labels)
    is_inside = ops.cast(ops.arange(frames)[None, :, None] < lengths[:, None, None], log_probs.dtype)
    steps = ops.concatenate([is_inside, log_probs[:, :, blank : blank + 1], of_labels], axis=2)
    repeated = ops.pad(labels[:, 1:] == labels[:, :-1], ((0, 0), (1, 0)))
    without_blank = ops.where(repeated, ops.cast(LOG_ZERO, log_probs.dtype), 0.0)

    def add_frame(state: tuple[Tensor, ...], step: Tensor) -> tuple[Tensor, ...]:
        blanks, ends, scale = state
        inside, of_blank, of_label = step[:, :1] > 0.5, step[:, 1:2], step[:, 2:]
        previous = _shift(ends)
        new_blanks = log_sum(blanks, previous) + of_blank
        new_ends = log_sum(ends, blanks[:, :-1], previous[:, :-1] + without_blank) + of_label
        largest = ops.maximum(ops.max(new_blanks, 1, keepdims=True), ops.max(new_ends, 1, keepdims=True))
        largest = ops.stop_gradient(largest)
        new = (ops.maximum(new_blanks - largest, LOG_ZERO), ops.maximum(new_ends - largest, LOG_ZERO), scale + largest)
        return tuple(ops.where(inside, after, before) for after, before in zip(new, state, strict=True))

    ends = ops.full_like(without_blank, LOG_ZERO)
    zeros = ops.zeros_like(ends[:, :1])
    initial = (ops.concatenate([zeros, ends], 1), ends, zeros)
    blanks, ends, scale = backend.fold(add_frame, initial, ops.transpose(steps, (1, 0, 2)))
    last = label_lengths[:, None]
    both = log_sum(ops.take_along_axis(blanks, last, 1), ops.take_along_axis(_shift(ends), last, 1))
    return (both + scale)[:, 0]


def _shift(x: Tensor) -> Tensor:
    """Return `[batch, n + 1]`, one position later."""
    return ops.pad(x, ((0, 0), (1, 0)), constant_values=LOG_ZERO)


def log_sum(*terms: Tensor) -> Tensor:
    """Return the logarithm of the sum of probabilities whose logarithms are given.

    As `logaddexp`, for any number of terms at once, and without `log1p`, which ONNX does not have.
    """
    largest = terms[0]
    for term in terms[1:]:
        largest = ops.maximum(largest, term)
    largest = ops.stop_gradient(largest)
    return largest + ops.log(sum(ops.exp(term - largest) for term in terms))


def ctc_greedy_decode(
    logits: Tensor, lengths: Tensor, blank: int = 0, padding: int = -1
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the labels of the best alignment: the best class of each frame, repetitions merged, without blanks.

    Unlike `keras.ops.ctc_decode` it is part of all export formats and of steps that XLA compiles.

    Args:
        logits: scores of the classes or their log-probabilities, `[batch, time, class]`.
        lengths: frames of each sample, `[batch]` or `[batch, 1]`.
        blank: class of the blank; -1: the last one.
        padding: value after the last label.

    Returns:
        The labels, `[batch, time]`, their number, `[batch]`, both int32, and the log-probability of
        the alignment, `[batch]`.
    """
    blank = class_of_blank(blank, logits.shape[2])
    log_probs = log_probabilities(logits)
    best = ops.cast(ops.argmax(log_probs, axis=2), "int32")
    # Counted, not `arange`: a symbolic tensor has no length.
    position = ops.cumsum(ops.ones_like(best), axis=1) - 1
    inside = position < flat_lengths(lengths)[:, None]
    before = ops.pad(best, ((0, 0), (1, 0)), constant_values=-1)[:, :-1]
    kept = ops.logical_and(ops.logical_and(best != before, best != blank), inside)
    count = ops.sum(ops.cast(kept, "int32"), axis=1)
    # Frames that are kept come first, each group in its order.
    frames = ops.max(position) + 1
    order = ops.argsort(ops.where(kept, position, position + frames), axis=1)
    labels = ops.take_along_axis(best, ops.cast(order, "int32"), axis=1)
    labels = ops.where(position < count[:, None], labels, padding)
    score = ops.sum(ops.where(inside, ops.max(log_probs, axis=2), 0.0), axis=1)
    return labels, count, score
