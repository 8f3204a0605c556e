"""The scenario with one weight, with dropout and numbers of its own: y = w * dropout(x) * sharpness."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
from keras import ops

from test.trainer.line import (
    CallbackOf,
    LineDataParams,
    LineGraph,
    LineModel,
    LineModelParams,
    PointsParams,
    Weights,
    by_hand as _by_hand,
    train,
)
from tfaip.backend.active import backend
from tfaip.layers.specaugment import SpecAugment
from tfaip.layers.stochasticdepth import StochasticDepth
from tfaip.model.graphbase import GraphBase
from tfaip.scenario.scenario import Scenario
from tfaip.trainer.scheduledvalues import ScheduleParams
from tfaip.trainer.scheduler.rules import Interpolation
from tfaip.util.typing import Tensor, TensorDict

TRACES: list[str] = []
"""One entry for each time that the loss was traced."""


class LiveModelParams(LineModelParams, cls=":LiveModel"):
    dropout: str = ""
    rate: float = 0.0
    sharp: float = 1.0
    layer: str = ""

    def graph_cls(self) -> type[GraphBase[Any]]:
        return LiveGraph


class LiveGraph(LineGraph):
    def __init__(self, params: LiveModelParams, **kwargs: Any) -> None:
        super().__init__(params, **kwargs)
        self.sharpness = self.scheduled("sharpness", params.sharp)
        self.drop = getattr(keras.layers, params.dropout)(params.rate) if params.dropout else None
        self.before = self._own_layer() if params.layer else None

    def _own_layer(self) -> keras.layers.Layer:
        """A layer of the package whose rate is a number of this graph; at 1 it doubles its input, or masks it."""
        if self.params.layer == "StochasticDepth":
            return StochasticDepth(keras.layers.Activation("linear"), self.scheduled("survival", 1.0))
        # One of forty masks of width 0 or 1 covers the only channel of the only frame.
        rate = self.params.layer
        masks = {"freq_masks": 40 if rate == "freq_width" else 0, "time_masks": 0}
        return SpecAugment(**{**masks, "time_warp": 0, rate: self.scheduled(rate, 0.0)})

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        if self.before is not None:
            x = ops.squeeze(self.before(ops.expand_dims(x, 1), training=training), 1)
        if self.drop is not None:
            x = self.drop(x, training=training)
        return {"y": self.line(x) * self.sharpness}


class LiveModel(LineModel):
    def __init__(self, params: LiveModelParams) -> None:
        super().__init__(params)
        self.offset = self.scheduled("offset", 0.0)

    def _loss(self, inputs: TensorDict, targets: TensorDict, outputs: TensorDict) -> dict[str, Tensor]:
        TRACES.append("loss")
        return {"loss": super()._loss(inputs, targets, outputs)["loss"] * (1.0 + self.offset)}


class LiveScenario(Scenario):
    data, model, train, val = LineDataParams, LiveModelParams, PointsParams(), PointsParams()


def step(target: str, *values: float) -> ScheduleParams:
    """A schedule with a value for each epoch."""
    return ScheduleParams(target, dict(enumerate(values)), Interpolation.STEP)


def live_params(
    x: list[float],
    *schedules: ScheduleParams,
    val_x: list[float] | None = None,
    output_dir: Path | None = None,
    model: dict[str, Any] | None = None,
    lr: float = 1.0,
    **fields: Any,
) -> Any:
    """Params of a training on `x`, an epoch for each value of the schedules; SGD with rate 1."""
    params = LiveScenario.default_trainer_params()
    params.gen.train, params.gen.val = PointsParams(x=x), PointsParams(x=val_x or [])
    params.gen.setup.train.batch_size = params.gen.setup.val.batch_size = 1
    for name, value in (model or {}).items():
        setattr(params.scenario.model, name, value)
    return _by_hand(params, output_dir, lr, **{"epochs": 2, "schedules": list(schedules), **fields})


class EachBatch(keras.callbacks.Callback):
    """Calls a function with the model after each batch."""

    def __init__(self, function: Callable[[Any], None]) -> None:
        super().__init__()
        self._function = function

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        backend.synchronize(self.model)
        self._function(self.model)


def weight_now(model: Any) -> float:
    """The weight within an epoch."""
    return float(keras.ops.convert_to_numpy(model.graph.line.kernel.value)[0, 0])


def weights_after(params: Any, **resume: Any) -> list[float]:
    """The weight after each epoch that is trained; nothing is compiled after the first one but for rates of Keras."""
    weights, counts = Weights(), []
    count = CallbackOf(on_epoch_end=lambda epoch, values: counts.append(len(TRACES)))
    TRACES.clear()
    train(params, weights, count, scenario=LiveScenario, **resume)
    of_keras = any(schedule.target.endswith((".rate", ".momentum")) for schedule in params.schedules)
    assert params.force_eager or of_keras or counts[0] == counts[-1] > 0, "the step was compiled again"
    return weights.values
