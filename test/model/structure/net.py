"""Graphs of a function, to try layers in."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from tfaip.model.graphbase import GraphBase
from tfaip.model.structure.axis import WeightStructure
from tfaip.model.structure.graph import graph_structure
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.util.typing import TensorDict


class Net(GraphBase[Any]):
    """A graph of a function: `Net({"x": (4,)}, lambda net, x: net.dense(x), dense=keras.layers.Dense(3))`.

    Args:
        inputs: shapes of the inputs by name, without the batch.
        run: returns the output, called with the graph and the inputs.
        parts: layers by attribute.
    """

    def __init__(self, inputs: Mapping[str, tuple[int | None, ...]], run: Callable[..., Any], **parts: Any) -> None:
        super().__init__(None, name="graph")
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)
        self.tensors = {name: keras.Input(shape, name=name) for name, shape in inputs.items()}
        self.predict(dict(self.tensors))
        self.randomize()

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.run(self, *inputs.values())}

    def randomize(self, seed: int = 1) -> None:
        """Give all weights positive values, so that none is 0 as the initial values of a bias."""
        rng = np.random.default_rng(seed)
        for weight in self.variables_by_path().values():
            weight.assign(rng.uniform(0.1, 0.5, tuple(weight.shape)))

    def outputs(self, seed: int = 1, samples: int = 2, time: int = 3) -> np.ndarray:
        """The outputs of random inputs."""
        rng = np.random.default_rng(seed)
        inputs = {}
        for name, tensor in self.tensors.items():
            shape = (samples, *(size or time for size in tensor.shape[1:]))
            inputs[name] = rng.normal(size=shape).astype("float32")
        return np.asarray(keras.ops.convert_to_numpy(self.predict(inputs)["y"]))

    def variables_by_path(self) -> dict[str, keras.Variable]:
        """Weights without the states of random generators."""
        weights = {id(weight) for weight in self.weights}
        return {path: v for path, v in variables_by_path(self).items() if id(v) in weights}

    def arrays(self) -> dict[str, np.ndarray]:
        return variable_arrays(self.variables_by_path())

    def structure(self) -> dict[str, WeightStructure]:
        return graph_structure(self, [(self.call, [self.tensors])])
