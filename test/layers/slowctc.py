"""CTC by its definition: sums over all paths, and a prefix beam search in plain Python, in float64."""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import cache
from typing import Any

import numpy as np

Labels = tuple[int, ...]


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


def all_transcripts(logits: np.ndarray, blank: int) -> dict[Labels, float]:
    """Log-probability of every transcript that is possible, `logits` is `[time, class]`."""
    log_probs = log_softmax(logits)
    frames, classes = log_probs.shape
    found: dict[Labels, float] = defaultdict(lambda: -np.inf)
    for path in _paths(frames, classes):
        score = float(log_probs[np.arange(frames), path].sum())
        labels = collapse(path, blank)
        found[labels] = float(np.logaddexp(found[labels], score))
    return found


def best_alignment(logits: np.ndarray, labels: Labels, blank: int) -> float:
    """Log-probability of the best path with this transcript."""
    log_probs = log_softmax(logits)
    frames, classes = log_probs.shape
    scores = [-np.inf]
    for path in _paths(frames, classes):
        if collapse(path, blank) == labels:
            scores.append(float(log_probs[np.arange(frames), path].sum()))
    return max(scores)


def beam_search(logits: np.ndarray, blank: int, width: int) -> list[tuple[float, Labels]]:
    """Prefix beam search; the best first."""
    log_probs = log_softmax(logits)
    beam: dict[Labels, tuple[float, float]] = {(): (0.0, -np.inf)}
    for frame in log_probs:
        new: dict[Labels, list[float]] = defaultdict(lambda: [-np.inf, -np.inf])
        for prefix, (of_blank, of_label) in beam.items():
            total = np.logaddexp(of_blank, of_label)
            for label, score in enumerate(frame):
                if label == blank:
                    _add(new[prefix], 0, total + score)
                elif prefix and prefix[-1] == label:
                    _add(new[prefix], 1, of_label + score)
                    _add(new[(*prefix, label)], 1, of_blank + score)
                else:
                    _add(new[(*prefix, label)], 1, total + score)
        ranked = sorted(new.items(), key=lambda item: -np.logaddexp(*item[1]))
        beam = {prefix: (scores[0], scores[1]) for prefix, scores in ranked[:width] if max(scores) > -np.inf}
    return [(float(np.logaddexp(*scores)), prefix) for prefix, scores in beam.items()]


def _add(scores: list[float], place: int, value: float) -> None:
    scores[place] = float(np.logaddexp(scores[place], value))
