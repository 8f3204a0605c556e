"""Small graphs and models whose numbers can be worked out by hand."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np

from tfaip.model.graphbase import GenericGraphBase, GraphBase
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.trainingmodel import TrainingModel
from tfaip.util.typing import Tensor, TensorDict

Shapes = Mapping[str, tuple[int | None, ...]]
X_AND_Y = ({"x": (1,)}, {"y": (1,)})


class ScaleGraph(GraphBase[ModelBaseParams]):
    """`y = weight * x` with one weight that starts at 2."""

    def __init__(self, params: ModelBaseParams | None = None, **kwargs: Any) -> None:
        super().__init__(params or ModelBaseParams(), **kwargs)
        self.dense = keras.layers.Dense(1, use_bias=False, kernel_initializer=keras.initializers.Constant(2.0))

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        return {"y": self.dense(inputs["x"])}


class FunctionModel(ModelBase[ModelBaseParams]):
    """A model whose overrides are given as functions, and whose further attributes are given by name."""

    def __init__(
        self,
        loss: Callable[..., Any],
        metric: Callable[..., list[Tensor]] | None = None,
        loss_weights: dict[str, float] | None = None,
        sample_weights: Callable[..., TensorDict] | None = None,
        **attributes: Any,
    ) -> None:
        super().__init__(ModelBaseParams())
        self._functions = (loss, metric, sample_weights)
        self._weights = loss_weights
        for name, value in attributes.items():
            setattr(self, name, value)

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> Any:
        return self._functions[0](inputs, targets, outputs)

    def _loss_weights(self) -> dict[str, float] | None:
        return self._weights

    def _metric(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> list[Tensor]:
        metric = self._functions[1]
        return [] if metric is None else metric(inputs, targets, outputs)

    def _sample_weights(self, inputs: TensorDict, targets: TensorDict) -> TensorDict:
        sample_weights = self._functions[2]
        return {} if sample_weights is None else sample_weights(inputs, targets)


def keras_inputs(shapes: Shapes) -> dict[str, keras.KerasTensor]:
    return {name: keras.Input(shape=shape, name=name) for name, shape in shapes.items()}


def training_model(
    model: ModelBase[Any],
    graph: GenericGraphBase[Any] | None = None,
    shapes: tuple[Shapes, Shapes] = X_AND_Y,
    **compile_arguments: Any,
) -> TrainingModel:
    """The model that `fit` runs, built and compiled with SGD of rate 1."""
    built = TrainingModel(model, graph or ScaleGraph())
    built.build_symbolically(keras_inputs(shapes[0]), keras_inputs(shapes[1]))
    built.compile(optimizer=keras.optimizers.SGD(1.0), **compile_arguments)
    return built


def column(values: list[float]) -> np.ndarray:
    """Numbers as an array of shape `[n, 1]`."""
    return np.array(values, np.float32)[:, None]


def evaluate(model: TrainingModel, x: list[float], y: list[float] | None, batch_size: int) -> dict[str, float]:
    """What `evaluate` logs; without `y` there are no targets."""
    arrays = ({"x": column(x)}, {} if y is None else {"y": column(y)})
    return model.evaluate(arrays, batch_size=batch_size, verbose=0, return_dict=True)


def logged(model: TrainingModel) -> dict[str, float]:
    """What the last epoch of `fit` logged."""
    return {name: float(value) for name, value in model.get_metrics_result().items()}
