"""Steps of JAX in a compiled loop."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import pytest

from test.backend.support import IS_JAX, Net

if not IS_JAX:
    pytest.skip("TensorFlow has such a loop of its own", allow_module_level=True)

import jax

from tfaip.backend.jaxsteps import LoopedSteps, operations

pytestmark = pytest.mark.backend


class CountingNet(Net):
    """`y = w * x`, w = 1 at first; counts how often its step is traced."""

    traced = 0

    def train_step(self, *args: Any) -> Any:
        self.traced += 1
        return super().train_step(*args)


def compiled(steps: int, rate: float = 0.5, platform: str = "cpu") -> CountingNet:
    model = CountingNet()
    model(np.ones((1, 1), np.float32))
    optimizer = keras.optimizers.SGD(rate)
    optimizer.build(model.trainable_variables)
    model.compile(optimizer=optimizer, loss="mae", steps_per_execution=steps)
    model.evaluate(np.ones((1, 1), np.float32), np.ones((1, 1), np.float32), verbose=0)  # makes the metrics
    model.train_function = LoopedSteps(model, platform)
    return model


def batches(sizes: list[int]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for size in sizes:
        yield np.ones((size, 1), np.float32), np.zeros((size, 1), np.float32)


def test_each_shape_is_traced_once_and_every_batch_is_trained_in_order() -> None:
    ended: list[int] = []

    class Count(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            ended.append(batch)

    sizes = [2, 2, 3, 2, 2, 2, 3]
    model = compiled(4, rate=0.0625)
    model.fit(batches(sizes), steps_per_epoch=len(sizes), verbose=0, shuffle=False, callbacks=[Count()])
    assert ended == [3, 7]
    # The gradient of |w * 1| is 1 while w is above 0.
    assert float(model.weights[0][0, 0]) == 1 - 7 * 0.0625
    # The mean over all samples of |w|, which falls by 0.0625 with each batch.
    expected = sum(size * (1 - 0.0625 * number) for number, size in enumerate(sizes)) / sum(sizes)
    assert model.get_metrics_result()["loss"] == pytest.approx(expected, rel=1e-6)
    assert model.traced == 2
    model.fit(batches([3, 2]), steps_per_epoch=2, verbose=0, shuffle=False)
    assert model.traced == 2


def test_large_batches_need_no_loop_on_a_gpu(caplog: pytest.LogCaptureFixture) -> None:
    size = 2**18  # a megabyte; two of them do not fit into one call
    losses, alone = [], []
    for platform in ("cpu", "gpu"):
        caplog.clear()
        model = compiled(4, rate=0.0625, platform=platform)
        with jax.log_compiles():
            model.fit(batches([size, 2, 2, size, size]), steps_per_epoch=5, verbose=0, shuffle=False)
        alone.append(sum("Compiling jit(train_step)" in message for message in caplog.messages))
        assert model.traced == 2
        # Each gradient is 1, so that no sum is rounded.
        assert float(model.weights[0][0, 0]) == 1 - 5 * 0.0625
        losses.append(float(model.get_metrics_result()["loss"]))
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)
    assert alone == [0, 1]


def test_an_error_within_an_execution_leaves_the_weights_of_the_last_call() -> None:
    def failing() -> Iterator[Any]:
        yield from batches([2, 2, 2, 2, 3])
        raise KeyError("broken")

    model = compiled(8, rate=0.125)
    with pytest.raises(KeyError, match="broken"):
        model.fit(failing(), steps_per_epoch=8, verbose=0, shuffle=False)
    # The batch of three samples waited for others of its shape.
    assert float(model.weights[0][0, 0]) == 0.5


def test_operations_are_found_in_branches_loops_and_calls() -> None:
    def convolve(x: Any) -> Any:
        return jax.lax.conv_general_dilated(x, jax.numpy.ones((1, 1, 2)), (1,), "SAME")

    def nested(x: Any) -> Any:
        def step(carry: Any, _: Any) -> tuple[Any, None]:
            return jax.lax.cond(jax.numpy.sum(carry) > 0, jax.checkpoint(jax.jit(convolve)), lambda y: y, carry), None

        return jax.lax.scan(step, x, None, length=2)[0]

    x = np.ones((1, 1, 4), np.float32)
    assert "conv_general_dilated" in operations(jax.jit(nested).trace(x).jaxpr.jaxpr)
    assert "conv_general_dilated" in operations(jax.jit(jax.grad(lambda x: nested(x).sum())).trace(x).jaxpr.jaxpr)
    assert "conv_general_dilated" not in operations(jax.jit(jax.numpy.tanh).trace(x).jaxpr.jaxpr)
