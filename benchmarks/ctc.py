"""Time of the CTC loss and its gradient: `ctc_loss` against `keras.ops.ctc_loss`, in turn in one process.

    python benchmarks/ctc.py [--pairs 7]
    KERAS_BACKEND=jax python benchmarks/ctc.py

Random scores and transcripts without padding: 16 samples of 200 frames, 80 classes and 30 labels, and 32 of 500 frames,
100 classes and 80 labels. Compiled once; what is timed are the loss and its gradient with respect to the scores.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
from pairs import race_calls, ratio_text

from tfaip.backend.environment import import_backend

BACKEND = import_backend()

import keras  # noqa: E402  (after the backend is chosen)

from tfaip.layers.ctc import ctc_loss  # noqa: E402

SIZES = {"small": (16, 200, 80, 30), "large": (32, 500, 100, 80)}


def compiled(loss: Callable[..., Any], scores: Any, *targets: np.ndarray) -> Callable[[], np.ndarray]:
    """Return a function that computes the loss and its gradient with respect to the scores, which it returns."""
    labels, label_lengths, lengths = targets

    def total(scores: Any) -> Any:
        return keras.ops.sum(loss(labels, scores, label_lengths, lengths))

    if BACKEND == "jax":
        import jax

        step = jax.jit(jax.value_and_grad(total))
    else:
        import tensorflow as tf

        @tf.function(autograph=False)
        def step(scores: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(scores)
                value = total(scores)
            return value, tape.gradient(value, scores)

    return lambda: np.asarray(step(scores)[1])


def main() -> None:
    """Print the medians and their ratio for each size."""
    parser = argparse.ArgumentParser(description="CTC loss against keras.ops.ctc_loss")
    parser.add_argument("--pairs", type=int, default=7)
    pairs = parser.parse_args().pairs
    rng = np.random.default_rng(1)
    for name, (batch, frames, classes, labels) in SIZES.items():
        scores = keras.ops.convert_to_tensor(rng.normal(size=(batch, frames, classes)).astype("float32"))
        transcripts = rng.integers(1, classes, (batch, labels)).astype("int32")
        targets = (transcripts, np.full(batch, labels, "int32"), np.full(batch, frames, "int32"))
        both = [compiled(loss, scores, *targets) for loss in (ctc_loss, keras.ops.ctc_loss)]
        times = race_calls(*both, pairs)
        own, other = (statistics.median(taken) * 1e3 for taken in times)
        print(f"{BACKEND} {name}: ours {own:.1f} ms, Keras {other:.1f} ms, ratio {ratio_text(*times)}")


if __name__ == "__main__":
    main()
