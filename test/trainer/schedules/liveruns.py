"""Trainings of the scenario with one weight whose numbers are scheduled."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np

from test.trainer.line import CallbackOf, Weights, train
from test.trainer.schedules.support import TRACES, LiveScenario, live_params, step
from tfaip.backend.active import backend

FROM_TWO = {"start": 2.0}


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


def check_live_value(
    target: str, values: tuple[float, ...], x: float, fields: dict[str, Any], expected: list[float], tmp_path: Path
) -> None:
    """The weight after each epoch of a training on `x` is as expected, also after a resume between two epochs."""
    fields = copy.deepcopy(fields)
    penalised = fields.pop("penalised", False)
    params = live_params([x], step(target, *values), output_dir=tmp_path / "run", **fields)
    params.scenario.use_input_gradient_regularization = penalised
    params.scenario.input_gradient_regularization_h = 0.25
    whole = weights_after(params)
    np.testing.assert_allclose(whole, expected, rtol=1e-6)
    assert weights_after(params, restore=True, checkpoint="epoch_0001") == whole[1:]
