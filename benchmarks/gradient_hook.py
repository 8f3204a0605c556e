"""Time of a training step: what the toolkit does to gradients against plain Adam of Keras.

    python benchmarks/gradient_hook.py [--pairs 15] [--steps 1000] [--steps_per_execution 16]
    KERAS_BACKEND=jax python benchmarks/gradient_hook.py

All train the tiny MLP (784 -> 128 -> 10, batch 16) with `keras.Model.fit`, in one process and in turn:

    default    the optimizer of the toolkit, which skips updates that are not finite
    hook       with all three clips and averages of the weights
    noise      the default with noise
    all        clips, averages and noise; also beside `hook`
    accumulate an update every 4 batches, against Keras with gradient_accumulation_steps=4
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from pairs import ratio_text

from tfaip.backend.environment import import_backend

BACKEND = import_backend()

import keras  # noqa: E402  (after the backend is chosen)

from tfaip.trainer.optimizer import AdamOptimizer, GradientNoiseParams  # noqa: E402
from tfaip.trainer.optimizer.trainingoptimizer import TrainingOptimizer  # noqa: E402
from tfaip.trainer.optimizer.update import AverageRate  # noqa: E402

BATCH = 16
CLIPS = {"clip_value": 1.0, "clip_norm": 1.0, "clip_global_norm": 1.5}
NOISE = GradientNoiseParams(stddev=0.01, gamma=0.55)


class Training:
    """A model that is trained epoch by epoch.

    Args:
        optimizer: makes the optimizer of a model.
        data: arguments of `fit`.
        steps_per_execution: of `compile`.
    """

    def __init__(self, optimizer: Callable[[keras.Model], Any], data: dict[str, Any], steps_per_execution: int) -> None:
        layers = [keras.layers.Dense(128, activation="relu"), keras.layers.Dense(10, activation="softmax")]
        self.model = keras.Sequential([keras.layers.Input((784,)), *layers])
        self.model.compile(
            optimizer(self.model),
            "sparse_categorical_crossentropy",
            steps_per_execution=steps_per_execution,
            jit_compile=BACKEND == "jax",
        )
        self.data = data

    def epoch_seconds(self) -> float:
        """Train one epoch."""
        started = time.perf_counter()
        self.model.fit(**self.data, verbose=0, shuffle=False)
        return time.perf_counter() - started


def keras_adam(accum_steps: int | None = None) -> Callable[[keras.Model], Any]:
    """Make plain Adam."""
    return lambda model: keras.optimizers.Adam(0.001, gradient_accumulation_steps=accum_steps)


def ours(average: bool = False, accum_steps: int = 1, **fields: Any) -> Callable[[keras.Model], Any]:
    """Make the optimizer of the toolkit."""

    def optimizer(model: keras.Model) -> Any:
        weights = {weight.path: weight for weight in model.trainable_variables}
        rate = AverageRate(0.999, ramp=False) if average else None
        built = TrainingOptimizer(AdamOptimizer(**fields), weights, model.trainable_variables, accum_steps, rate)
        built.schedule.base.assign(0.001)
        return built

    return optimizer


def arguments_of_fit(steps: int) -> dict[str, Any]:
    """Return the data of an epoch, fed as cheaply as each backend can."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(steps * BATCH, 784)).astype(np.float32)
    y = rng.integers(10, size=steps * BATCH)
    if BACKEND != "tensorflow":
        return {"x": x, "y": y, "batch_size": BATCH}
    import tensorflow as tf

    return {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH).cache()}


def main() -> None:
    """Parse the command line, measure in turn, print ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=15, help="epochs of each that are compared")
    parser.add_argument("--steps", type=int, default=1000, help="batches of an epoch")
    parser.add_argument("--steps_per_execution", type=int, default=16 if BACKEND == "tensorflow" else 1)
    args = parser.parse_args()
    data = arguments_of_fit(args.steps)
    optimizers = {
        "adam": keras_adam(),
        "default": ours(),
        "hook": ours(average=True, **CLIPS),
        "noise": ours(gradient_noise=NOISE),
        "all": ours(average=True, gradient_noise=NOISE, **CLIPS),
        "adam/4": keras_adam(accum_steps=4),
        "accumulate": ours(accum_steps=4),
    }
    trainings = {name: Training(o, data, args.steps_per_execution) for name, o in optimizers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in trainings}
    for i in range(args.pairs + 1):
        for name, training in trainings.items():
            taken = training.epoch_seconds()
            if i:
                seconds[name].append(taken)
    print(f"{BACKEND}, {os.cpu_count()} CPUs, {args.steps_per_execution} steps per execution, {args.pairs} pairs")
    peers = [(name, "adam") for name in ("default", "hook", "noise", "all")]
    peers += [("all", "hook"), ("accumulate", "adam/4")]
    for name, peer in peers:
        step_us = statistics.median(seconds[name]) / args.steps * 1e6
        print(f"{name:10} / {peer:6}  {ratio_text(seconds[name], seconds[peer])}, {step_us:.0f} us per step")


if __name__ == "__main__":
    main()
