"""Steps of TensorFlow in a compiled loop over chunks of batches."""

from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.backend.support import IS_JAX, Net
from tfaip.data.specs import TensorSpec

if IS_JAX:
    pytest.skip("test_jaxloop.py has that of JAX", allow_module_level=True)

from tfaip.backend.tensorflowsteps import CHUNK_BATCHES, LoopedSteps, dataset, no_data, prepared


class AddedLoss(Net):
    """`loss = w * mean(x)`, w = 1 at first; counts how often its step is traced."""

    traced = 0

    def call(self, x: Any, training: bool | None = None) -> Any:
        y = self.inner(x[0]["x"])
        self.add_loss(ops.mean(y))
        return y

    def train_step(self, data: Any) -> Any:
        self.traced += 1
        return super().train_step(data)


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_every_batch_is_trained_once_and_in_order_however_executions_divide_them(run_eagerly: bool) -> None:
    sizes = [2, 2, 3, 2, 2, 2, 3] + [1] * (CHUNK_BATCHES + 1)
    elements = [({"x": np.full((size, 1), 2.0**-number, np.float32)}, {}) for number, size in enumerate(sizes)]
    model = AddedLoss()
    model(elements[0])
    model.compile(keras.optimizers.SGD(0.5), steps_per_execution=5, run_eagerly=run_eagerly)
    model.train_function = steps = LoopedSteps(model, model.train_step)
    steps.read(dataset(({"x": TensorSpec((1,))}, {}), prepared(iter(elements), is_shared=False)))
    ended: list[int] = []
    callback = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: ended.append(batch))
    model.fit(no_data(), steps_per_epoch=len(sizes), verbose=0, shuffle=False, callbacks=[callback])
    assert ended == [4, 9, 14, 19, 24, 29, 34, 39]
    # The gradient of batch n is 2 ** -n, and Keras weights its loss with the size of the batch.
    weights = [1 - sum(0.5 * 2.0**-number for number in range(step)) for step in range(len(sizes))]
    expected = sum(size * weights[n] * 2.0**-n for n, size in enumerate(sizes)) / sum(sizes)
    assert float(model.get_metrics_result()["loss"]) == pytest.approx(expected, rel=1e-6)
    assert float(model.weights[0][0, 0]) == pytest.approx(2.0 ** -len(sizes), abs=1e-7)
    assert model.traced == (len(sizes) if run_eagerly else 1)
    with pytest.raises(StopIteration):
        steps(None)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int8", "int64", "uint16", "bool", "str"])
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (4, 6)])
def test_chunks_are_copies_of_arrays_of_any_type_and_layout(dtype: str, shape: tuple[int, ...]) -> None:
    batches = [np.arange(number, number + np.prod(shape, dtype=int)).reshape(shape[::-1]).T for number in (0, 7, 1)]
    arrays = [batch.astype(dtype) for batch in batches]  # not contiguous, and not at aligned addresses
    chunk = next(prepared(iter([({"x": array}, {}) for array in arrays]), is_shared=False))[0][0]["x"]
    expected = np.stack(arrays)
    for array in arrays:
        array[...] = array.dtype.type(0)
    found = chunk.numpy().astype(dtype)
    assert (found.shape, chunk.dtype.name) == ((3, *shape), dtype if dtype != "str" else "string")
    assert found.tolist() == expected.tolist()
