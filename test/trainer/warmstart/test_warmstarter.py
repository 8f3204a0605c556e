"""Warm starts: params, sources, what is loaded, said and refused, and wider models."""

import logging
import shutil
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from keras import ops

from test.support.runs import history, make_once
from test.trainer.net import (
    ENCODER,
    HEAD,
    STATISTICS,
    NetGraph,
    NetModelParams,
    NetScenario,
    changed,
    net_params,
    train,
    weights_of,
)
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.model.graphbase import GraphBase
from tfaip.model.transfer import Source
from tfaip.model.weights import load_arrays
from tfaip.params import pai_dataclass
from tfaip.trainer.modelbuilding import build_training_model
from tfaip.trainer.scheduler import ConstantParams
from tfaip.trainer.warmstart import WarmStartMode, WarmStartParams, WarmstartParams
from tfaip.trainer.warmstart.warmstarter import WarmStarter, read_source
from tfaip.util.typing import TensorDict


@pytest.mark.parametrize(("given", "model"), [(None, []), ("a", "a"), (["a"], "a"), (["a", "b"], ["a", "b"])])
def test_one_path_is_a_text_everywhere(given: object, model: list[str] | str) -> None:
    assert WarmStartParams(model=given).model == model
    # So tfaip 1.2 stored it.
    assert WarmStartParams.from_dict({"model": given}).model == model
    stored = WarmStartParams(model=given).to_json()
    assert WarmstartParams.from_json(stored) == WarmStartParams(model=given)  # the other spelling is the same class


def weights(source: Source) -> dict[str, np.ndarray]:
    return {path: source.arrays[path] for path in ENCODER + HEAD}


@pytest.fixture(scope="session")
def averaged_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs with averaged weights; every test reads it, none writes to it."""

    def make(path: Path) -> None:
        train(net_params(path / "run", calc_ema=0.5, random_seed=1))

    return make_once(tmp_path_factory, "averaged_net", make) / "run"


@pytest.fixture
def run(averaged_run: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return Path(shutil.copytree(averaged_run, tmp_path / "run"))


@pytest.mark.slow
@pytest.mark.backend
def test_a_checkpoint_gives_the_averages_that_were_exported_with_it(averaged_run: Path) -> None:
    checkpoint = averaged_run / "checkpoint" / "epoch_0002"
    exported = read_source(averaged_run / "export")
    assert exported.description == str(averaged_run / "export")
    assert changed(exported.arrays, load_arrays(averaged_run / "export" / "weights.safetensors")) == []
    source = read_source(checkpoint)
    assert source.description == f"{checkpoint} (averaged weights)"
    assert changed(weights(source), weights(exported)) == []
    arrays = load_arrays(checkpoint / "state.safetensors")
    raw = {path: arrays[f"weights/{path}"] for path in ENCODER + HEAD}
    # Statistics have no average; everything that is trained has.
    assert changed(weights(source), raw) == sorted(set(ENCODER + HEAD) - set(STATISTICS))


def test_a_run_gives_its_best_model_else_its_final_one_else_a_checkpoint(run: Path) -> None:
    found = []
    for left in (run / "best", run / "export", run / "checkpoint"):
        found.append(Path(read_source(run).description.removesuffix(" (averaged weights)")))
        shutil.rmtree(left)
    assert found == [run / "best", run / "export", run / "checkpoint" / "epoch_0002"]
    nothing = "expected an exported model .*, a run .*, a checkpoint"
    for path, text in ((run, nothing), (run / "x", "not a directory, or")):
        with pytest.raises(UsageError, match=f"no model at .*{path.name}.*: {text}"):
            read_source(path)


def build(params: Any, warmstarter: WarmStarter | None = None) -> dict[str, np.ndarray]:
    """The weights of a model that is built for a training, before its first batch."""
    keras.utils.set_random_seed(5)
    trainer = NetScenario.create_trainer(params)
    build_training_model(params, trainer.scenario, 11, Devices(), warmstarter or trainer.create_warmstarter())
    return weights_of(trainer)


def started(source: Path | list[str], units: int = 3, classifier: bool = False, **fields: Any) -> dict[str, np.ndarray]:
    """The weights behind a warm start."""
    model = source if isinstance(source, list) else str(source)
    params = net_params(warmstart=WarmStartParams(model=model, **fields))
    params.scenario.model.units, params.scenario.model.classifier = units, classifier
    return build(params)


def fresh(units: int = 3, classifier: bool = False) -> dict[str, np.ndarray]:
    return started([], units, classifier)


def exported(run: Path, name: str = "best") -> dict[str, np.ndarray]:
    arrays = load_arrays(run / name / "weights.safetensors")
    return {path: array for path, array in arrays.items() if "seed_generator" not in path}


@pytest.mark.parametrize("place", ["", "best", pytest.param("checkpoint", marks=pytest.mark.backend)])
def test_all_weights_are_loaded_from_every_kind_of_source(place: str, averaged_run: Path) -> None:
    weights = started(averaged_run / place)
    assert changed(weights, exported(averaged_run, place if place in ("best", "export") else "best")) == []
    assert set(changed(weights, fresh())) == set(ENCODER + HEAD)


@pytest.mark.backend
def test_random_states_are_not_loaded(averaged_run: Path) -> None:
    trainer = NetScenario.create_trainer(net_params(warmstart=WarmStartParams(model=str(averaged_run))))
    build_training_model(trainer.params, trainer.scenario, 11, Devices())
    state = trainer.scenario.graph.encoder.dropout.seed_generator.state
    state.assign(np.array([1, 2]))
    trainer.create_warmstarter().apply(trainer.scenario.graph)
    assert keras.ops.convert_to_numpy(state).tolist() == [1, 2]


@pytest.mark.slow
def test_weights_may_be_changed_and_found_by_other_names(averaged_run: Path) -> None:
    class Wider(WarmStarter):
        """Repeats the entries of weights that have become wider."""

        def read_sources(self) -> list[Source]:
            return [Source("memory", {f"graph/{name}:0": a for name, a in exported(averaged_run).items()})]

        def _trim(self, names: list[str]) -> list[str]:
            return [name.removeprefix("graph/").removesuffix(":0") for name in names]

        def apply_weights(self, target_model: Any, new_weights: list[np.ndarray]) -> None:
            fitting = []
            for weight, array in zip(target_model.weights, new_weights, strict=True):
                resized = np.resize(array, tuple(weight.shape)) if array.shape != tuple(weight.shape) else array
                fitting.append(resized)
            super().apply_weights(target_model, fitting)

    params = net_params()
    params.scenario.model.units = 4
    weights, source = build(params, Wider(WarmStartParams())), exported(averaged_run)
    for name, array in source.items():
        np.testing.assert_array_equal(weights[name], np.resize(array, weights[name].shape), err_msg=name)
    assert weights["encoder/norm/gamma"].shape == (4,)


@pytest.mark.slow
def test_a_partial_match_is_refused_unless_it_is_allowed(averaged_run: Path) -> None:
    with pytest.raises(UsageError) as caught:
        started(averaged_run / "best", units=4)
    assert str(caught.value) == (
        f"{averaged_run}/best fits the model only in part: 2 of 11 weights match, not "
        "encoder/conv/0/bias (shape 3, needed 4), encoder/conv/0/kernel (shape 2x1x3, needed 2x1x4) and 7 more; "
        "leave them fresh with warmstart.allow_partial True, or map names with warmstart.rename 'old->new', "
        "or take the parts that both shapes have with warmstart.mode subset"
    )
    with pytest.raises(UsageError, match="9 of 11 weights match, not classifier/bias, .*; leave .* 'old->new'$"):
        started(averaged_run / "best", classifier=True)
    weights = started(averaged_run / "best", units=4, allow_partial=True)
    assert changed(weights, fresh(units=4)) == ["encoder/scale", "head/bias"]


@pytest.mark.slow
def test_of_several_sources_the_first_that_fits_wins(averaged_run: Path, tmp_path: Path) -> None:
    params = net_params(tmp_path / "wide", epochs=1)
    params.scenario.model.units = 4
    _, wide = train(params)
    weights = started([str(tmp_path / "wide"), str(averaged_run)])
    old = exported(averaged_run)
    # Of the wide model only these have the shapes of the new one.
    for path in ("head/bias", "encoder/scale"):
        np.testing.assert_array_equal(weights[path], wide[path])
    assert changed(weights, old) == ["encoder/scale", "head/bias"]


@pytest.mark.slow
@pytest.mark.backend
def test_a_training_begins_with_the_loaded_weights(averaged_run: Path, tmp_path: Path) -> None:
    # Nothing moves with rate 0, so the validation is that of the loaded weights, averaged ones included.
    fields: dict[str, Any] = {"learning_rate": ConstantParams(lr=0.0), "epochs": 1, "no_train_scope": "encoder"}
    warmstart = WarmStartParams(model=str(averaged_run / "export"))
    params = net_params(tmp_path / "run", warmstart=warmstart, calc_ema=0.9, **fields)
    logs, weights = train(params)
    assert logs["val_mse"] == history(averaged_run)["2"]["values"]["val_mse"]
    assert changed(weights, exported(averaged_run, "export")) == []
    assert changed(exported(tmp_path / "run"), exported(averaged_run, "export")) == []
    assert logs["val_mse"] != train(net_params(**fields))[0]["val_mse"]


@pytest.mark.slow
def test_a_resumed_training_is_not_started_again(averaged_run: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(averaged_run, tmp_path / "source"))
    params = net_params(tmp_path / "run", calc_ema=0.9, warmstart=WarmStartParams(model=str(source)))
    _, whole = train(params)
    shutil.rmtree(source)
    trainer = NetScenario.create_trainer(params, restore=True, checkpoint="epoch_0001")
    trainer.train()
    assert changed(weights_of(trainer), whole) == []


SUBSET = WarmStartMode.SUBSET


def test_a_wider_model_takes_the_leading_units(averaged_run: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "tfaip")
    source, params = averaged_run / "best", net_params()
    params.scenario.model.units = 5
    fresh, params.warmstart = build(params), WarmStartParams(model=str(source), mode=SUBSET)
    weights, old = build(params), load_arrays(source / "weights.safetensors")
    kernel = fresh["encoder/conv/1/kernel"].copy()
    kernel[:, :3, :3] = old["encoder/conv/1/kernel"]
    np.testing.assert_array_equal(weights["encoder/conv/1/kernel"], kernel)
    np.testing.assert_array_equal(weights["head/kernel"][:3], old["head/kernel"])
    np.testing.assert_array_equal(weights["head/kernel"][3:], fresh["head/kernel"][3:])
    loaded = "2 copied, 9 resized, 0 fresh"
    assert f"warm start from {source}: {loaded}" in caplog.messages
    assert "  encoder/conv/1/kernel         2x5x5  loaded in part [2, 3, 3] -> [2, 5, 5]" in caplog.messages
    assert "  head/kernel                   5x1    loaded in part [3, 1] -> [5, 1]" in caplog.messages


class JoinedGraph(NetGraph):
    """Two joined layers before the head."""

    def __init__(self, params: NetModelParams, **kwargs: Any) -> None:
        GraphBase.__init__(self, params, **kwargs)
        self.left, self.right = keras.layers.Dense(params.units), keras.layers.Dense(2 * params.units)
        self.head = keras.layers.Dense(1, kernel_initializer="zeros")

    def build_graph(self, inputs: TensorDict, training: bool | None = None) -> TensorDict:
        x = inputs["x"]
        return {"y": self.head(ops.concatenate([self.left(x), self.right(x)], axis=-1))}


@pai_dataclass
class JoinedModelParams(NetModelParams):
    def graph_cls(self) -> type[GraphBase[Any]]:
        return JoinedGraph


class InMemory(WarmStarter):
    """Arrays of a joined graph with 2 and 4 units."""

    def read_sources(self) -> list[Source]:
        shapes = {"left": 2, "right": 4}
        arrays = {f"{name}/kernel": np.ones((4, units), np.float32) for name, units in shapes.items()}
        arrays["head/kernel"] = np.arange(1, 7, dtype=np.float32).reshape(6, 1)
        return [Source("memory", arrays)]


def joined_head(**fields: Any) -> list[float]:
    """The rows of the head of a graph with 3 and 6 units; 0 where they are fresh."""
    params = net_params()
    params.scenario.model = JoinedModelParams(units=3)
    warmstarter = InMemory(WarmStartParams(mode=SUBSET, allow_partial=True, include=".*kernel", **fields))
    weights = build(params, warmstarter)["head/kernel"]
    return [float(value) for value in weights[:, 0]]


def test_rows_after_joined_layers_are_cut_between_them_and_what_a_file_does_not_tell_is_given() -> None:
    assert joined_head() == [1, 2, 0, 3, 4, 5, 6, 0, 0]
    unknown = {"rename": ["^(left|right)->gone_\\1"]}
    with pytest.raises(UsageError) as caught:
        joined_head(**unknown)
    assert str(caught.value) == (
        "nothing in memory matches the model: it holds head/kernel, left/kernel and 1 more, the model "
        "needs head/kernel (ambiguous: the sizes of its parts in the source are not known), left/kernel and 1 more; "
        "map names with warmstart.rename 'old->new', or choose another warmstart.model, or give the sizes of joined "
        "inputs with warmstart.blocks 'path=[3,5,5,7]'"
    )
    assert joined_head(**unknown, blocks={"head": [1, 5, 2, 7]}) == [1, 0, 2, 3, 4, 5, 6, 0, 0]
