"""Trains a small net on one and on two logical CPU devices; run as a program, it writes what came out.

KERAS_BACKEND=... python -m test.trainer.optimizer.devices OUT.npz
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tfaip.trainer.optimizer import (
    AdagradOptimizer,
    AdamOptimizer,
    GradientNoiseParams,
    NadamOptimizer,
    OptimizerGroupParams,
    OptimizerParams,
    SGDOptimizer,
)
from tfaip.trainer.scheduler import ConstantParams, CyclicModulationParams, LearningRateParams, PolynomialDecayParams

BATCH, BATCHES = 8, 9
PATHS = ("hidden/kernel", "hidden/bias", "head/kernel", "head/bias")
SHAPES = ((3, 4), (4,), (4, 1), (1,))


@dataclass
class Case:
    """A training of `BATCHES` batches.

    Args:
        optimizer: its params.
        accum_steps: batches per update.
        bad: batches, from 0, with an input that is not a number.
        rate: the learning rate.
        reads_rows: the first layer reads rows of its kernel, some of them twice.
    """

    optimizer: OptimizerParams
    accum_steps: int = 1
    bad: tuple[int, ...] = ()
    rate: LearningRateParams = field(default_factory=lambda: ConstantParams(lr=0.1))
    reads_rows: bool = False


def everything() -> dict[str, Any]:
    """Every option of the gradients at once, but for noise."""
    return {
        "clip_value": 0.5,
        "clip_norm": 0.6,
        "clip_global_norm": 0.7,
        "weight_decay": 0.1,
        "exclude_from_weight_decay": ".*/bias",
        "skip_nonfinite": 2,
        "groups": [OptimizerGroupParams(match="head", lr_factor=0.5, optimizer=NadamOptimizer(weight_decay=0.2))],
    }


CASES = {
    "plain": Case(SGDOptimizer()),
    "accumulation": Case(SGDOptimizer(), accum_steps=3),
    "remainder": Case(SGDOptimizer(momentum=0.5), accum_steps=2),
    "sgd": Case(SGDOptimizer(**{**everything(), "groups": []}), accum_steps=2, bad=(3,)),
    "adam": Case(AdamOptimizer(**everything()), accum_steps=2, bad=(3,)),
    "stopped": Case(SGDOptimizer(), bad=(4,)),
    "schedule": Case(
        SGDOptimizer(),
        accum_steps=2,
        rate=PolynomialDecayParams(
            lr=0.1, step_function=False, epochs=2, modulation=CyclicModulationParams(interval_steps=3, decay=0.5)
        ),
    ),
    "rows": Case(AdagradOptimizer(clip_norm=0.6), accum_steps=2, reads_rows=True),
    "noise": Case(SGDOptimizer(clip_value=0.5, gradient_noise=GradientNoiseParams(stddev=0.4, gamma=0.55))),
}


def data(bad: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of all batches."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(BATCH * BATCHES, 3)).astype(np.float32)
    y = np.sin(2 * x[:, :1]) + x[:, 1:2]
    for batch in bad:
        x[BATCH * batch + 5] = np.nan
    return x, y


def train(case: Case, batch_size: int = BATCH) -> dict[str, np.ndarray]:
    """Weights, averages and waiting gradients after the training."""
    import keras

    from tfaip.trainer.optimizer.trainingoptimizer import build_optimizer
    from tfaip.trainer.optimizer.update import AverageRate

    class Rows(keras.layers.Dense):
        def call(self, x: Any, training: bool | None = None) -> Any:
            rows = keras.ops.take(self.kernel, keras.ops.cast(x > 0, "int32"), axis=0)
            return keras.ops.tanh(keras.ops.sum(rows, axis=1) + self.bias)

    hidden = Rows if case.reads_rows else keras.layers.Dense
    layers = [hidden(4, activation="tanh"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.layers.Input((3,)), *layers])
    rng = np.random.default_rng(7)
    model.set_weights([rng.normal(size=shape) for shape in SHAPES])
    weights = dict(zip(PATHS, model.trainable_variables, strict=True))
    optimizer = build_optimizer(
        case.optimizer,
        weights,
        model.trainable_variables,
        case.accum_steps,
        AverageRate(0.75, ramp=False),
        rate=case.rate,
        seed=1,
    )
    optimizer.begin_epoch(0.1, completed=0, batches=BATCHES, done=0)
    model.compile(optimizer, "mse", jit_compile=keras.backend.backend() == "jax")
    x, y = data(case.bad)
    model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0)
    variables = {**weights, **optimizer.named_variables(weights)}
    named = {name: np.array(v * 1) for name, v in variables.items()}
    return {**named, "updates": np.array(optimizer.updates), "moments": np.array(int(optimizer.iterations))}


@contextlib.contextmanager
def two_devices_of_tensorflow() -> Iterator[None]:
    """Mirrored over two logical CPUs."""
    import tensorflow as tf

    with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
        yield


@contextlib.contextmanager
def two_devices_of_jax() -> Iterator[None]:
    """Data parallel over two CPU devices."""
    import keras

    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=keras.distribution.list_devices("cpu")))
    yield


def prepare(backend: str) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Split the CPU in two logical devices, before the backend starts."""
    if backend == "jax":
        os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
        return two_devices_of_jax
    import tensorflow as tf

    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    return two_devices_of_tensorflow


def main(path: str) -> None:
    """Run all cases and write them."""
    two_devices = prepare(os.environ["KERAS_BACKEND"])
    found = {("one", name): train(case) for name, case in CASES.items()}
    found["one", "large batch"] = train(CASES["plain"], batch_size=3 * BATCH)
    with two_devices():
        found.update({("two", name): train(case) for name, case in CASES.items()})
    np.savez(path, **{f"{devices}|{case}|{n}": a for (devices, case), named in found.items() for n, a in named.items()})


if __name__ == "__main__":
    main(sys.argv[1])
