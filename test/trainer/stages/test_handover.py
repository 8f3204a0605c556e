"""A network that grows in a real training: what its weights, moments and averages begin with."""

import dataclasses
import gc
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.tiny.scenario import TinyScenario
from test.trainer.line import LineTrainerParams, line_params, train
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import load_arrays, variable_arrays
from tfaip.trainer import training
from tfaip.trainer.modelbuilding import build_training_model, built_from
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.stages.params import TrainStage

Arrays = dict[str, np.ndarray]


class Begun(keras.callbacks.Callback):
    """Copies all variables at the beginning of each stage, and looks which earlier models are alive."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[Arrays] = []
        self.optimizer: list[Arrays] = []
        self.batches: list[int] = []
        self.models: list[Any] = []
        self.alive: list[int] = []

    def on_train_begin(self, logs: Any = None) -> None:
        variables = variables_by_path(self.model.graph)
        self.weights.append(variable_arrays(variables))
        self.batches.append(self.model.optimizer.batches)
        self.optimizer.append(variable_arrays(self.model.optimizer.named_variables(variables)))
        gc.collect()
        self.alive.append(sum(model() is not None for model in self.models))
        self.models.append(weakref.ref(self.model))


def grown(run: Path, stage: TrainStage | None = None, **fields: Any) -> tuple[Begun, Arrays]:
    """Train 3 units in epoch 1, 8 in epoch 2; return what both begin with, and the state at the end of the first."""
    params, begun = TinyScenario.default_trainer_params(), Begun()
    params.output_dir, params.random_seed, params.epochs = str(run), 3, 2
    params.export_best, params.export_final, params.skip_model_load_test = False, False, True
    params.stages = {"small": stage or TrainStage(epochs=1, overrides={"model.units": "3"})}
    params.calc_ema, params.train_accum_steps = 0.9, 4
    for name, value in fields.items():
        setattr(params, name, value)
    trainer = train(params, begun, scenario=TinyScenario)
    assert trainer.scenario.graph is begun.models[-1]().graph
    return begun, load_arrays(run / "stages" / "small" / "state" / "state.safetensors")


def test_a_model_is_kept_only_if_all_params_are_equal_that_it_was_built_from(monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[Any, set[str]] = {build_training_model: set(), built_from: set()}
    params_cls, before = LineTrainerParams, LineTrainerParams.__getattribute__
    fields = {field.name for field in dataclasses.fields(params_cls)}

    def recorded(function: Any, *args: Any) -> Any:
        def found(params: Any, name: str) -> Any:
            read[function] |= {name} & fields
            return before(params, name)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(params_cls, "__getattribute__", found)
            return function(*args)

    for function in read:
        monkeypatch.setattr(training, function.__name__, partial(recorded, function))
    train(line_params([1, 2]))
    assert read[build_training_model] - read[built_from] == {"random_seed"}  # one of the run
    assert "optimizer" in read[build_training_model]


@pytest.mark.slow
@pytest.mark.backend
def test_weights_are_the_leading_block_of_the_larger_ones(tmp_path: Path) -> None:
    begun, before = grown(tmp_path / "run")
    beginning, optimizer = begun.weights[1], begun.optimizer[1]
    assert beginning["hidden/kernel"].shape == (4, 8)
    np.testing.assert_array_equal(beginning["hidden/kernel"][:, :3], before["weights/hidden/kernel"])
    np.testing.assert_array_equal(beginning["out/kernel"][:3], before["weights/out/kernel"])
    np.testing.assert_array_equal(beginning["out/bias"], before["weights/out/bias"])
    new = beginning["hidden/kernel"][:, 3:]
    assert np.all(new != 0)
    # Slots follow their weights.
    for kind in ("momentum", "velocity", "gradient_accumulator", "average"):
        slot, old = optimizer[f"{kind}/hidden/kernel"], before[f"optimizer/{kind}/hidden/kernel"]
        assert np.any(old != 0), kind
        np.testing.assert_array_equal(slot[:, :3], old)
        np.testing.assert_array_equal(slot[:, 3:], new if kind == "average" else np.zeros((4, 5)))
    # Counters continue. 11 batches, of which the last 3 wait for the first one of the next stage.
    for name in (name for name in optimizer if "/" not in name and name != "learning_rate"):
        assert optimizer[name].tolist() == before[f"optimizer/{name}"].tolist(), name
    assert begun.batches == [0, 11]
    assert begun.alive == [0, 0]  # the model of the earlier stage is freed


@pytest.mark.slow
def test_frozen_weights_have_no_moments(tmp_path: Path) -> None:
    frozen = TrainStage(epochs=1, no_train_scope="out")
    begun, before = grown(tmp_path / "run", frozen, optimizer=SGDOptimizer(momentum=0.9))
    moments = [sorted(name for name in arrays if name.startswith("momentum/")) for arrays in begun.optimizer]
    hidden = ["momentum/hidden/bias", "momentum/hidden/kernel"]
    assert moments == [hidden, [*hidden, "momentum/out/bias", "momentum/out/kernel"]]
    np.testing.assert_array_equal(begun.weights[0]["out/kernel"], before["weights/out/kernel"])
    assert np.any(begun.optimizer[1]["momentum/hidden/kernel"] != 0)
    assert np.all(begun.optimizer[1]["momentum/out/kernel"] == 0)
