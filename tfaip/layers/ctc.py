"""Connectionist temporal classification (CTC): loss, greedy decoding and prefix beam search."""

from __future__ import annotations

from typing import NamedTuple

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


class Beam(NamedTuple):
    """Prefixes of transcripts, the best first: `beam` different ones per sample.

    Args:
        blanks: log-probability of the alignments that end with the blank, `[batch, beam]`.
        ends: log-probability of those that end with the last label, `[batch, beam]`.
        labels: the prefixes, `[batch, beam, time]`, -1 after the last label.
        sizes: numbers of labels, `[batch, beam]`.
        common: number of labels that two prefixes have in common from the beginning,
            `[batch, beam, beam]`.
    """

    blanks: Tensor
    ends: Tensor
    labels: Tensor
    sizes: Tensor
    common: Tensor


def ctc_beam_search(
    logits: Tensor, lengths: Tensor, beam_width: int = 16, top_paths: int = 1, blank: int = 0, padding: int = -1
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the most probable transcripts, found by a prefix beam search (Hannun et al., 2014).

    Unlike `keras.ops.ctc_decode` it gives the same on all backends, and also for samples that have
    fewer transcripts than asked for. The time grows with `beam_width ** 2`.

    Args:
        logits: scores of the classes or their log-probabilities, `[batch, time, class]`.
        lengths: frames of each sample, `[batch]` or `[batch, 1]`.
        beam_width: number of prefixes that are kept after each frame.
        top_paths: number of transcripts that are returned, at most `beam_width`.
        blank: class of the blank; -1: the last one.
        padding: value after the last label.

    Returns:
        The transcripts, the best first, `[batch, top_paths, time]`, their number of labels,
        `[batch, top_paths]`, and their log-probability, `[batch, top_paths]`, which is minus
        infinity if there is no further transcript.

    Raises:
        ValueError: if the widths do not fit, or the inputs are symbolic: `.keras` files, and models
            that are built of symbolic tensors, have no loop over frames.
    """
    if not 1 <= top_paths <= beam_width:
        raise ValueError(f"top_paths is {top_paths}, expected 1 to beam_width, which is {beam_width}")
    if isinstance(logits, keras.KerasTensor):
        raise ValueError(
            "ctc_beam_search is a loop over frames, which symbolic tensors and .keras files cannot hold: call it in "
            "build_graph and export a SavedModel or ONNX, or use ctc_greedy_decode"
        )
    log_probs = ops.maximum(log_probabilities(logits), LOG_ZERO)
    beam = _search(log_probs, flat_lengths(lengths), beam_width, class_of_blank(blank, logits.shape[2]))
    scores = log_sum(beam.blanks, beam.ends)[:, :top_paths]
    exists = scores > 0.5 * LOG_ZERO
    labels = beam.labels[:, :top_paths]
    labels = ops.where(ops.logical_and(exists[:, :, None], labels >= 0), labels, padding)
    sizes = ops.where(exists, beam.sizes[:, :top_paths], 0)
    return labels, sizes, ops.where(exists, scores, -float("inf"))


def _search(log_probs: Tensor, lengths: Tensor, width: int, blank: int) -> Beam:
    """Return the beam after the last frame of each sample."""
    batch, frames = ops.shape(log_probs)[:2]
    none = ops.full((batch, width), LOG_ZERO, dtype=log_probs.dtype)
    empty = ops.concatenate([ops.zeros((batch, 1), dtype=log_probs.dtype), none[:, 1:]], axis=1)
    beam = Beam(
        blanks=empty,
        ends=none,
        labels=ops.full((batch, width, frames), -1, dtype="int32"),
        sizes=ops.zeros((batch, width), dtype="int32"),
        common=ops.zeros((batch, width, width), dtype="int32"),
    )

    def add_frame(before: Beam, step: Tensor) -> Beam:
        inside = step[:, :1] > 0.5
        after = _extend(before, step[:, 1:], blank)
        chosen = []
        for new, old in zip(after, before, strict=True):
            chosen.append(ops.where(ops.reshape(inside, (-1, *(1 for _ in old.shape[1:]))), new, old))
        return Beam(*chosen)

    inside = ops.cast(ops.arange(frames)[None, :, None] < lengths[:, None, None], log_probs.dtype)
    steps = ops.concatenate([inside, log_probs], axis=2)
    last: Beam = backend.fold(add_frame, beam, ops.transpose(steps, (1, 0, 2)))
    return last


def _extend(beam: Beam, frame: Tensor, blank: int) -> Beam:
    """Return the best prefixes after one more frame, `[batch, class]`.

    Candidates are the prefixes themselves (another blank, or the last label again), and each with
    one label more. One that is a prefix of the beam already adds its probability to that.
    """
    width, classes = beam.blanks.shape[1], frame.shape[1]
    last = _last_labels(beam)
    total = log_sum(beam.blanks, beam.ends)
    is_last = last[:, :, None] == ops.arange(classes, dtype="int32")
    longer = ops.where(is_last, beam.blanks[:, :, None], total[:, :, None]) + frame[:, None]

    # [batch, i, j]: prefix j is prefix i with one label more.
    exists = total > 0.5 * LOG_ZERO
    sizes = beam.sizes
    child = ops.logical_and(sizes[:, None] == sizes[:, :, None] + 1, beam.common == sizes[:, :, None])
    child = ops.logical_and(child, ops.logical_and(exists[:, None], exists[:, :, None]))
    index = ops.repeat(ops.maximum(last, 0)[:, None], width, axis=1)
    joining = ops.max(ops.where(child, ops.take_along_axis(longer, index, axis=2), LOG_ZERO), axis=1)
    again = beam.ends + ops.take_along_axis(frame, ops.maximum(last, 0), axis=1)
    ends = log_sum(ops.where(last >= 0, again, LOG_ZERO), joining)
    blanks = total + frame[:, blank : blank + 1]

    joined = ops.matmul(ops.cast(child, "float32"), ops.cast(is_last, "float32")) > 0.5
    is_blank = ops.arange(classes) == blank
    gone = ops.logical_or(ops.logical_or(joined, is_blank[None, None]), ops.logical_not(exists)[:, :, None])
    longer = ops.reshape(ops.where(gone, LOG_ZERO, longer), (-1, width * classes))
    return _select(beam, blanks, ends, longer, classes)


def _select(beam: Beam, blanks: Tensor, ends: Tensor, longer: Tensor, classes: int) -> Beam:
    """Return the best of the prefixes and of those with one label more, `[batch, beam * class]`."""
    width = beam.blanks.shape[1]
    scores, index = backend.largest(ops.concatenate([log_sum(blanks, ends), longer], axis=1), width)
    index = ops.cast(index, "int32")
    is_longer = index >= width
    source = ops.where(is_longer, (index - width) // classes, index)
    added = ops.where(is_longer, (index - width) % classes, -1)
    labels = ops.take_along_axis(beam.labels, source[:, :, None], axis=1)
    sizes = ops.take_along_axis(beam.sizes, source, axis=1)
    position = ops.arange(ops.shape(labels)[2])[None, None]
    grown = ops.logical_and(is_longer[:, :, None], position == sizes[:, :, None])
    labels = ops.where(grown, added[:, :, None], labels)
    return Beam(
        blanks=ops.maximum(ops.where(is_longer, LOG_ZERO, ops.take_along_axis(blanks, source, axis=1)), LOG_ZERO),
        ends=ops.maximum(ops.where(is_longer, scores, ops.take_along_axis(ends, source, axis=1)), LOG_ZERO),
        labels=labels,
        sizes=sizes + ops.cast(is_longer, "int32"),
        common=_common(beam.common, source, labels),
    )


def _common(common: Tensor, source: Tensor, labels: Tensor) -> Tensor:
    """Return the common lengths of the new prefixes: those of their sources, or one more."""
    common = ops.take_along_axis(ops.take_along_axis(common, source[:, :, None], axis=1), source[:, None], axis=2)
    last = ops.shape(labels)[2] - 1
    following = ops.take_along_axis(labels, ops.minimum(common, last), axis=2)
    other = ops.transpose(following, (0, 2, 1))
    same = ops.logical_and(ops.logical_and(following == other, following >= 0), common <= last)
    return common + ops.cast(same, "int32")


def _last_labels(beam: Beam) -> Tensor:
    """Return the last label of each prefix, -1 if it is empty, `[batch, beam]`."""
    index = ops.maximum(beam.sizes - 1, 0)[:, :, None]
    return ops.take_along_axis(beam.labels, index, axis=2)[:, :, 0]
