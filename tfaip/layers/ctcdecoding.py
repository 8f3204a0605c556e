"""Greedy CTC decoding: the labels of the best class of each frame."""

from __future__ import annotations

from keras import ops

from tfaip.layers.ctcblank import class_of_blank
from tfaip.layers.ctcloss import flat_lengths, log_probabilities
from tfaip.util.typing import Tensor


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
