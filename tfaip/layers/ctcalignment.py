"""Transcripts of the outputs of a CTC model: forced alignment and beam search. NumPy only: needs no backend."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray


class Alignment(NamedTuple):
    """The most probable alignment of a transcript.

    Args:
        labels: class of each frame, the blank included, `[time]`: targets of a frame-wise training.
        positions: index in the transcript of the label of each frame, -1 where it is the blank, `[time]`.
        log_probability: of the alignment.
    """

    labels: NDArray[np.int32]
    positions: NDArray[np.int32]
    log_probability: float


def ctc_align(logits: ArrayLike, labels: ArrayLike | Sequence[int], blank: int = 0) -> Alignment:
    """Return the most probable alignment of a transcript (Viterbi).

    Args:
        logits: scores of the classes or their log-probabilities, without padding, `[time, class]`.
        labels: the transcript, without padding, `[label]`.
        blank: class of the blank; -1: the last one.

    Raises:
        ValueError: if the shapes or labels do not fit, or no alignment exists: there are fewer
            frames than labels plus repetitions of a label, or each has a logit of minus infinity.
    """
    log_probs = _log_probabilities(logits)
    frames, classes = log_probs.shape
    blank = class_of_blank(blank, classes)
    transcript = np.asarray(labels, np.int64)
    wrong = [label for label in transcript.ravel().tolist() if not 0 <= label < classes or label == blank]
    if transcript.ndim != 1 or wrong:
        raise ValueError(f"labels are {transcript.tolist()}, expected a list of 0 to {classes - 1} without {blank}")
    # States: blank, first label, blank, second label, ..., blank.
    states = np.full(2 * len(transcript) + 1, blank)
    states[1::2] = transcript
    can_skip = np.zeros(len(states), bool)  # the blank before a state: it is between two different labels
    can_skip[3::2] = states[3::2] != states[1:-2:2]
    path, score = _best_path(log_probs[:, states], can_skip)
    if not np.isfinite(score):
        needed = len(transcript) + int(np.sum(transcript[1:] == transcript[:-1]))
        raise ValueError(
            f"{frames} frames have no alignment with {len(transcript)} labels, which need at least {needed} frames"
        )
    positions = np.where(path % 2 == 1, path // 2, -1)
    return Alignment(states[path].astype(np.int32), positions.astype(np.int32), float(score))


def ctc_beam_search(logits: ArrayLike, beam_width: int = 16, blank: int = 0) -> list[tuple[list[int], float]]:
    """Return the most probable transcripts with their log-probabilities, the best first (Hannun et al., 2014).

    Args:
        logits: scores of the classes or their log-probabilities, without padding, `[time, class]`.
        beam_width: number of prefixes that are kept after each frame.
        blank: class of the blank; -1: the last one.

    Raises:
        ValueError: if `logits` have another shape, or there is no such blank.
    """
    log_probs = _log_probabilities(logits)
    blank = class_of_blank(blank, log_probs.shape[1])
    # Log-probabilities of the alignments of a prefix that end with the blank, and with its last label.
    beam: dict[tuple[int, ...], list[float]] = {(): [0.0, -np.inf]}
    for frame in log_probs:
        # No other label leads into the next beam, or to a prefix in this one.
        labels = {*np.argsort(-frame)[: beam_width + 2].tolist(), *(prefix[-1] for prefix in beam if prefix)} - {blank}
        longer: dict[tuple[int, ...], list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        for prefix, (of_blank, of_label) in beam.items():
            total = np.logaddexp(of_blank, of_label)
            same = longer[prefix]
            same[0] = total + frame[blank]
            if prefix:
                same[1] = np.logaddexp(same[1], of_label + frame[prefix[-1]])
            for label in labels:
                before = of_blank if prefix[-1:] == (label,) else total
                extended = longer[(*prefix, label)]
                extended[1] = np.logaddexp(extended[1], before + frame[label])
        best = sorted(longer.items(), key=lambda item: -np.logaddexp.reduce(item[1]))[:beam_width]
        beam = {prefix: scores for prefix, scores in best if max(scores) > -np.inf}
    return [(list(prefix), float(np.logaddexp.reduce(scores))) for prefix, scores in beam.items()]


def _log_probabilities(logits: ArrayLike) -> NDArray[np.float64]:
    scores = np.asarray(logits, np.float64)
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise ValueError(f"logits have the shape {list(scores.shape)}, expected [time, class] with at least 2 classes")
    if np.isnan(scores).any() or np.isposinf(scores).any():
        raise ValueError("logits have values that are no numbers, or infinite")
    scores = scores - scores.max(axis=1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=1, keepdims=True)))


def _best_path(log_probs: NDArray[np.float64], can_skip: NDArray[np.bool_]) -> tuple[NDArray[np.int64], float]:
    """Return the state of each frame on the best path, and its log-probability."""
    frames, states = log_probs.shape
    if frames == 0:
        return np.zeros(0, np.int64), 0.0 if states == 1 else -np.inf
    steps = np.zeros((frames, states), np.int8)
    best = np.full(states + 2, -np.inf)  # with two states before the first one, which no path reaches
    best[2:4] = log_probs[0, :2]
    for frame in range(1, frames):
        choices = np.stack([best[2:], best[1:-1], np.where(can_skip, best[:-2], -np.inf)])
        steps[frame] = choices.argmax(axis=0)
        best[2:] = choices.max(axis=0) + log_probs[frame]
    last = states - 1 if best[-1] >= best[-2] else states - 2
    path = np.empty(frames, np.int64)
    path[-1] = last
    for frame in range(frames - 1, 0, -1):
        path[frame - 1] = path[frame] - steps[frame, path[frame]]
    return path, float(best[2:][last])


def class_of_blank(blank: int, classes: int) -> int:
    """Return the class of the blank from 0.

    Args:
        blank: as the caller has given it; -1: the last class.
        classes: number of classes, the blank included.

    Raises:
        ValueError: if there is no such class, e.g. since the logits have no class for the blank.
    """
    if not -classes <= blank < classes:
        raise ValueError(f"blank is {blank}, expected a class from 0 to {classes - 1}, or -1 for the last one")
    return blank % classes
