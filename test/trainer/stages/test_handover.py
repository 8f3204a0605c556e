"""A network that grows in a real training: what its weights, moments and averages begin with."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from test.support.tiny.scenario import TinyScenario, TinyTrainerParams
from test.trainer.line import LineDataParams, LinePipelineParams, PointsParams, by_hand, train
from tfaip.model.modelbase import ModelBase
from tfaip.model.modelbaseparams import ModelBaseParams
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import load_arrays, variable_arrays
from tfaip.params import pai_dataclass
from tfaip.scenario.scenariobase import ScenarioBase
from tfaip.scenario.scenariobaseparams import ScenarioBaseParams
from tfaip.trainer.optimizer import SGDOptimizer
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.stages.params import TrainStage
from tfaip.trainer.transfer.params import TransferMode, TransferParams


class Begun(keras.callbacks.Callback):
    """Copies all variables at the beginning of each stage."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: list[dict[str, np.ndarray]] = []
        self.optimizer: list[dict[str, np.ndarray]] = []
        self.batches: list[int] = []

    def on_train_begin(self, logs: Any = None) -> None:
        variables = variables_by_path(self.model.graph)
        self.weights.append(variable_arrays(variables))
        self.batches.append(self.model.optimizer.batches)
        self.optimizer.append(variable_arrays(self.model.optimizer.named_variables(variables)))


def grown(run: Path, **fields: Any) -> TinyTrainerParams:
    """3 units in epoch 1, 8 in epoch 2."""
    params = TinyScenario.default_trainer_params()
    params.output_dir, params.random_seed, params.epochs = str(run), 3, 2
    params.export_best = params.export_final = False
    params.stages = {"small": TrainStage(epochs=1, overrides={"model.units": "3"})}
    params.calc_ema, params.train_accum_steps = 0.9, 4
    for name, value in fields.items():
        setattr(params, name, value)
    return params


def kept(run: Path) -> dict[str, np.ndarray]:
    return load_arrays(run / "stages" / "small" / "state" / "state.safetensors")


@pytest.mark.slow
def test_models_of_earlier_stages_are_freed(tmp_path: Path) -> None:
    models: list[Any] = []
    alive: list[int] = []

    class Watch(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            gc.collect()
            alive.append(sum(model() is not None for model in models))
            models.append(weakref.ref(self.model))

    stages = {"same": TrainStage(epochs=1), "small": TrainStage(epochs=1, overrides={"model.units": "3"})}
    params = grown(tmp_path / "run", stages=stages, epochs=3, skip_model_load_test=True)
    trainer = train(params, Watch(), scenario=TinyScenario)
    assert alive == [0, 0, 0]
    assert trainer.scenario.graph is models[-1]().graph


@pai_dataclass
@dataclass
class JoinedModelParams(ModelBaseParams):
    first: int = 5
    second: int = 7
    units: int = 7

    @staticmethod
    def cls() -> type[ModelBase[Any]]:
        return JoinedModel


class JoinedModel(ModelBase[JoinedModelParams]):
    """Two joined layers, and an LSTM that reads them."""

    loss = keras.losses.MeanSquaredError()

    def build_model(self) -> keras.layers.Layer:
        inputs = keras.Input((1,))
        x = keras.layers.Reshape((1, 1))(inputs)
        parts = [keras.layers.Dense(self.params.first, name="first")(x)]
        parts.append(keras.layers.Dense(self.params.second, name="second")(x))
        x = keras.layers.LSTM(self.params.units, name="rnn")(keras.layers.Concatenate()(parts))
        return keras.Model(inputs, keras.layers.Dense(1, name="line")(x))


class JoinedScenarioParams(ScenarioBaseParams[LineDataParams, JoinedModelParams]):
    pass


class JoinedTrainerParams(TrainerParams[JoinedScenarioParams, LinePipelineParams]):
    pass


class JoinedScenario(ScenarioBase[JoinedScenarioParams, JoinedTrainerParams]):
    pass


@pytest.mark.guard
def test_a_kernel_of_four_gates_grows_gate_by_gate_and_part_by_part(tmp_path: Path) -> None:
    params, begun = JoinedScenario.default_trainer_params(), Begun()
    params.gen.train, params.gen.val = PointsParams(x=[1.0, 2.0], y=[0.5, -0.5]), PointsParams()
    params.gen.setup.train.batch_size = 1
    small = {"model.first": "3", "model.second": "5", "model.units": "5"}
    stages = {"small": TrainStage(epochs=1, overrides=small)}
    params = by_hand(params, tmp_path / "run", epochs=2, stages=stages, optimizer=SGDOptimizer(momentum=0.9))
    train(params, begun, scenario=JoinedScenario)
    before = kept(tmp_path / "run")
    path = next(path for path in begun.weights[1] if path.endswith("rnn/cell/kernel"))
    for old, new in (
        (before[f"weights/{path}"], begun.weights[1][path]),
        (before[f"optimizer/momentum/{path}"], begun.optimizer[1][f"momentum/{path}"]),
    ):
        assert (old.shape, new.shape) == ((8, 20), (12, 28))
        for gate in range(4):
            columns, old_columns = slice(7 * gate, 7 * gate + 5), slice(5 * gate, 5 * gate + 5)
            np.testing.assert_array_equal(new[0:3, columns], old[0:3, old_columns])
            np.testing.assert_array_equal(new[5:10, columns], old[3:8, old_columns])
    assert np.count_nonzero(begun.optimizer[1][f"momentum/{path}"]) <= 8 * 20


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> tuple[Begun, dict[str, np.ndarray]]:
    """The beginning of both stages, and the state at the end of the first one."""
    run, begun = tmp_path_factory.mktemp("grown") / "run", Begun()
    train(grown(run), begun, scenario=TinyScenario)
    return begun, kept(run)


@pytest.mark.slow
@pytest.mark.backend
def test_weights_are_the_leading_block_of_the_larger_ones(begun: tuple[Begun, dict[str, np.ndarray]]) -> None:
    beginning, before = begun[0].weights[1], begun[1]
    assert beginning["hidden/kernel"].shape == (4, 8)
    np.testing.assert_array_equal(beginning["hidden/kernel"][:, :3], before["weights/hidden/kernel"])
    np.testing.assert_array_equal(beginning["out/kernel"][:3], before["weights/out/kernel"])
    np.testing.assert_array_equal(beginning["out/bias"], before["weights/out/bias"])
    assert np.all(beginning["hidden/kernel"][:, 3:] != 0)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param("momentum", marks=pytest.mark.slow),
        "velocity",
        pytest.param("gradient_accumulator", marks=pytest.mark.backend),
        "average",
    ],
)
def test_slots_follow_their_weights(kind: str, begun: tuple[Begun, dict[str, np.ndarray]]) -> None:
    beginning, before = begun[0].optimizer[1], begun[1]
    slot, old = beginning[f"{kind}/hidden/kernel"], before[f"optimizer/{kind}/hidden/kernel"]
    assert np.any(old != 0)
    np.testing.assert_array_equal(slot[:, :3], old)
    new = begun[0].weights[1]["hidden/kernel"][:, 3:] if kind == "average" else np.zeros((4, 5))
    np.testing.assert_array_equal(slot[:, 3:], new)


@pytest.mark.backend
def test_counters_continue(begun: tuple[Begun, dict[str, np.ndarray]]) -> None:
    beginning, before = begun[0].optimizer[1], begun[1]
    names = [name for name in beginning if "/" not in name and name != "learning_rate"]
    assert {name: beginning[name].tolist() for name in names} == {
        name: before[f"optimizer/{name}"].tolist() for name in names
    }
    # 11 batches, of which the last 3 wait for the first one of the next stage.
    assert begun[0].batches == [0, 11]


@pytest.mark.slow
@pytest.mark.backend
def test_the_moments_of_another_rule_begin_with_zeros(tmp_path: Path) -> None:
    begun = Begun()
    stages = {"small": TrainStage(epochs=1, overrides={"optimizer": "SGD", "optimizer.momentum": "0.9"})}
    train(grown(tmp_path / "run", stages=stages), begun, scenario=TinyScenario)
    before, beginning = kept(tmp_path / "run"), begun.optimizer[1]
    assert np.all(beginning["momentum/hidden/kernel"] == 0)
    np.testing.assert_array_equal(beginning["average/hidden/kernel"], before["optimizer/average/hidden/kernel"])
    accumulated = before["optimizer/gradient_accumulator/hidden/kernel"]
    np.testing.assert_array_equal(beginning["gradient_accumulator/hidden/kernel"], accumulated)
    # Updates go on, and the new moments have seen none of them.
    assert int(beginning["updates_before_moments"]) == 11 // 4


@pytest.mark.slow
def test_frozen_weights_have_no_moments(tmp_path: Path) -> None:
    begun = Begun()
    stages = {"small": TrainStage(epochs=1, no_train_scope="out")}
    params = grown(tmp_path / "run", stages=stages, optimizer=SGDOptimizer(momentum=0.9))
    train(params, begun, scenario=TinyScenario)
    assert [sorted(name for name in arrays if name.startswith("momentum/")) for arrays in begun.optimizer] == [
        ["momentum/hidden/bias", "momentum/hidden/kernel"],
        ["momentum/hidden/bias", "momentum/hidden/kernel", "momentum/out/bias", "momentum/out/kernel"],
    ]
    for path in ("out/kernel", "out/bias"):
        np.testing.assert_array_equal(begun.weights[0][path], kept(tmp_path / "run")[f"weights/{path}"])
    assert np.any(begun.optimizer[1]["momentum/hidden/kernel"] != 0)
    assert np.all(begun.optimizer[1]["momentum/out/kernel"] == 0)


SELECTIONS = {
    "exact": (TransferParams(mode=TransferMode.EXACT), {"out/bias"}),
    "include": (TransferParams(include="hidden"), {"hidden/kernel", "hidden/bias"}),
    "exclude": (TransferParams(exclude="hidden"), {"out/kernel", "out/bias"}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SELECTIONS)
def test_only_selected_weights_follow(name: str, tmp_path: Path) -> None:
    transfer, expected = SELECTIONS[name]
    begun = Begun()
    few = {"samples_per_epoch": 8, "train_accum_steps": 1, "val_every_n": 0, "skip_model_load_test": True}
    train(grown(tmp_path / "run", transfer=transfer, **few), begun, scenario=TinyScenario)
    before, beginning = kept(tmp_path / "run"), begun.weights[1]
    followed = set()
    for path in ("hidden/kernel", "hidden/bias", "out/kernel", "out/bias"):
        old = before[f"weights/{path}"]
        assert np.any(old != 0)
        if np.array_equal(beginning[path][tuple(slice(size) for size in old.shape)], old):
            followed.add(path)
    assert followed == expected
