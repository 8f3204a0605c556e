"""Functions of batches that TensorFlow compiles: one graph for every size, another one only for other lengths."""

from __future__ import annotations

import numpy as np

from tfaip.backend.tensorflowsteps import CompiledStep


def test_one_graph_for_all_sizes_and_one_more_when_a_length_changes():
    traced = []

    def double(arrays):
        inputs, targets = arrays
        traced.append(tuple(inputs["x"].shape))
        return {"sum": inputs["x"] * 2 + targets["y"]}

    step = CompiledStep(double)

    def check(size, length):
        x = np.arange(size * length, dtype=np.float32).reshape(size, length)
        y = np.ones((size, 1), np.float32)
        np.testing.assert_array_equal(step(({"x": x}, {"y": y}))["sum"].numpy(), x * 2 + 1)

    for size, length in [(4, 3), (2, 3), (7, 3)]:
        check(size, length)
    assert traced == [(None, 3)]
    for size, length in [(4, 5), (1, 9), (4, 3)]:
        check(size, length)
    assert traced == [(None, 3), (None, None)]


def test_text_reaches_the_function():
    import tensorflow as tf

    step = CompiledStep(lambda arrays: tf.strings.length(arrays["text"]))
    assert step({"text": np.array([["a"], ["bcd"]], object)}).numpy().tolist() == [[1], [3]]
