"""Params of the devices: what is refused before anything is imported; JAX where TensorFlow is not installed."""

import sysconfig
from pathlib import Path

import keras
import numpy as np
import pytest

from test.support.commands import REPOSITORY, finish_command, start_python
from test.support.runs import copy_tiny
from test.support.tiny.scenario import TinyScenario
from tfaip.device import DeviceConfigParams, DistStrategy
from tfaip.device.devices import open_devices
from tfaip.errors import UsageError


def test_what_cannot_work_is_refused(subtests: pytest.Subtests) -> None:
    for fields, message in [
        ({"num_processes": 2}, "process_id is None, expected a value, since a cluster needs num_processes"),
        ({"num_processes": 2, "process_id": 0, "coordinator": "node1"}, "coordinator is 'node1', expected host:port"),
    ]:
        with subtests.test(fields=fields), pytest.raises(ValueError, match=message):
            DeviceConfigParams(**fields)


@pytest.mark.backend
@pytest.mark.parametrize("strategy", DistStrategy)
def test_strategies_of_the_other_backend_are_refused(strategy: DistStrategy) -> None:
    own = {"tensorflow": DistStrategy.MIRROR, "jax": DistStrategy.DATA_PARALLEL}[keras.backend.backend()]
    params = DeviceConfigParams(dist_strategy=strategy)
    if strategy in (DistStrategy.DEFAULT, own):
        assert open_devices(params).num_shares == 1
    else:
        with pytest.raises(UsageError, match=f"set dist_strategy {own.value}"):
            open_devices(params)


def test_what_was_made_outside_of_the_strategy_is_refused() -> None:
    params = TinyScenario.default_trainer_params()
    params.device.dist_strategy, params.steps_per_execution = DistStrategy.MIRROR, None
    trainer = TinyScenario.create_trainer(params)
    trainer.scenario.graph.predict({"x": np.zeros((1, 4), np.float32)})
    with pytest.raises(UsageError, match="devices cannot share it: .*graph/dense.* --device.dist_strategy"):
        trainer.train()


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All installed packages but TensorFlow."""
    directory = tmp_path_factory.mktemp("packages")
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not entry.name.lower().startswith("tensorflow"):
            (directory / entry.name).symlink_to(entry)
    return directory


def test_a_backend_that_is_not_installed_is_named(packages: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    env = {"KERAS_BACKEND": "tensorflow", "PYTHONPATH": f"{REPOSITORY}:{packages}"}
    train = ["-S", "-m", "tfaip.scripts.train", "tiny", "--trainer.output_dir", run]
    result = finish_command(start_python(*train, cwd=copy_tiny(tmp_path), env=env))
    assert result.rc == 2, result
    assert result.stderr.startswith("error: the Keras backend 'tensorflow' cannot be imported")
    assert not run.exists()
