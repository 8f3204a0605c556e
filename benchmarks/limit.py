"""Time of an epoch: the toolkit against a loop written by hand for one network, the least that an epoch can take.

    python benchmarks/limit.py [--pairs 9] [--samples 60000] [--profile FILE]
    KERAS_BACKEND=jax python benchmarks/limit.py

Both train the tiny MLP of `epoch_time.py` (28x28 -> 128 -> 10, batch 16, Adam), in one process, epoch by epoch in turn.
The loop by hand is raw TensorFlow or JAX: 16 compiled steps at a time on shuffled batches of arrays in memory, and the
mean of the losses read at the end of the epoch. It has no metrics, checkpoints, log, names or options. The toolkit
writes no files here, but checks gradients, and has its accuracy, history and progress.
"""

import argparse
import cProfile
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from images import BACKEND, BATCH_SIZE, RATE, synthetic_images, toolkit
from pairs import Turn, race, report

STEPS = 16  # compiled together
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-7
Weights = list[Any]


def initial_weights() -> list[np.ndarray]:
    """Return kernels and biases of both layers."""
    rng = np.random.default_rng(0)

    def kernel(rows: int, columns: int) -> np.ndarray:
        limit = (6 / (rows + columns)) ** 0.5
        return rng.uniform(-limit, limit, (rows, columns)).astype(np.float32)

    return [kernel(784, 128), np.zeros(128, np.float32), kernel(128, 10), np.zeros(10, np.float32)]


def chunks(samples: int, epoch: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield images and labels of `STEPS` shuffled batches at a time."""
    images, labels = synthetic_images(samples)
    images, classes = images.reshape(len(images), -1), labels[:, 0]
    size = STEPS * BATCH_SIZE
    order = np.random.default_rng(epoch).permutation(samples)[: samples // size * size]
    for chosen in order.reshape(-1, STEPS, BATCH_SIZE):
        yield images[chosen], classes[chosen]


def tensorflow_chunk() -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return the function that trains on the batches of a chunk and returns their losses."""
    import tensorflow as tf

    weights = [tf.Variable(weight) for weight in initial_weights()]
    slots = [(tf.Variable(tf.zeros_like(weight)), tf.Variable(tf.zeros_like(weight))) for weight in weights]
    powers = tf.Variable(1.0), tf.Variable(1.0)

    def step(images: Any, classes: Any) -> Any:
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(images @ weights[0] + weights[1])
            logits = hidden @ weights[2] + weights[3]
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(classes, logits))
        gradients = tape.gradient(loss, weights)
        for power, beta in zip(powers, (BETA_1, BETA_2), strict=True):
            power.assign(power * beta)
        for weight, (first, second), gradient in zip(weights, slots, gradients, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=weight.handle,
                m=first.handle,
                v=second.handle,
                beta1_power=powers[0],
                beta2_power=powers[1],
                lr=RATE,
                beta1=BETA_1,
                beta2=BETA_2,
                epsilon=EPSILON,
                grad=gradient,
            )
        return loss

    @tf.function
    def chunk(images: Any, classes: Any) -> Any:
        return tf.stack([step(images[number], classes[number]) for number in range(STEPS)])

    return lambda images, classes: chunk(tf.constant(images), tf.constant(classes))


def jax_chunk() -> Callable[[np.ndarray, np.ndarray], Any]:
    """Return the function that trains on the batches of a chunk and returns their losses."""
    import jax
    import jax.numpy as jnp

    def loss_of(weights: Weights, images: Any, classes: Any) -> Any:
        hidden = jax.nn.relu(images @ weights[0] + weights[1])
        logits = hidden @ weights[2] + weights[3]
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), classes[:, None], axis=1))

    def step(state: Any, batch: Any) -> Any:
        weights, first, second, number = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, *batch)
        number += 1
        rate = RATE * jnp.sqrt(1 - BETA_2**number) / (1 - BETA_1**number)
        first = [m + (g - m) * (1 - BETA_1) for m, g in zip(first, gradients, strict=True)]
        second = [v + (g * g - v) * (1 - BETA_2) for v, g in zip(second, gradients, strict=True)]
        moved = zip(weights, first, second, strict=True)
        return ([w - rate * m / (jnp.sqrt(v) + EPSILON) for w, m, v in moved], first, second, number), loss

    train = jax.jit(lambda state, batches: jax.lax.scan(step, state, batches), donate_argnums=0)
    weights = [jnp.asarray(weight) for weight in initial_weights()]
    state = [weights, [jnp.zeros_like(w) for w in weights], [jnp.zeros_like(w) for w in weights], jnp.float32(0)]

    def chunk(images: np.ndarray, classes: np.ndarray) -> Any:
        state[:], losses = train(tuple(state), (images, classes))
        return losses

    return chunk


def by_hand(samples: int, epochs: int) -> Callable[[Turn], None]:
    """Run a contestant: the loop by hand."""

    def train(turn: Turn) -> None:
        chunk = {"tensorflow": tensorflow_chunk, "jax": jax_chunk}[BACKEND]()
        for epoch in range(epochs):
            turn()
            losses = [chunk(*batches) for batches in chunks(samples, epoch)]
            loss = float(np.mean([np.asarray(found) for found in losses]))
            if not loss < 2.5:
                raise SystemExit(f"the loss of the loop by hand is {loss}")

    return train


def main() -> None:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=9, help="epochs of each that are compared")
    parser.add_argument("--samples", type=int, default=60_000, help="number of images")
    parser.add_argument("--profile", help="file for the profile of the toolkit alone, instead of a comparison")
    args = parser.parse_args()
    logging.getLogger("tfaip").setLevel(logging.WARNING)
    epochs = args.pairs + 2  # the first one warms up, the last one is not measured
    ours = toolkit("mlp", args.samples, epochs, None)
    if args.profile:
        profile = cProfile.Profile()
        profile.runcall(ours, lambda: None)
        profile.dump_stats(args.profile)
        return
    report(f"{BACKEND}, toolkit / loop by hand", *race([ours, by_hand(args.samples, epochs)]))


if __name__ == "__main__":
    main()
