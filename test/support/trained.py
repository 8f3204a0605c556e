"""A trained tutorial that many tests load, made once per test run and backend: read it, or copy it."""

import json
import warnings
from pathlib import Path
from typing import Any

import keras
import pytest

from test.support.runs import make_once
from tfaip.scenario.tutorial.full.modelparams import MLPGraphParams
from tfaip.scenario.tutorial.full.scenario import TutorialScenario


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a run of two epochs with LAV, on the backend of this process; not to be changed."""

    def make(path: Path) -> None:
        params = TutorialScenario.default_trainer_params()
        params.scenario.model.graph = MLPGraphParams(units=[32])
        params.epochs, params.random_seed, params.lav_every_n, params.lav_silent = 2, 3, 1, True
        params.learning_rate.lr = 0.01
        params.gen.setup.val.batch_size = 25  # 360 images: the last batch is smaller
        params.output_dir = str(path / "run")
        with warnings.catch_warnings():
            # The SavedModel of a JAX model.
            warnings.filterwarnings("ignore", message="The `native_serialization` parameter is deprecated")
            TutorialScenario.create_trainer(params).train()

    return make_once(tmp_path_factory, f"tutorial-{keras.backend.backend()}", make) / "run"


def best_values(run: Path) -> dict[str, Any]:
    """What was logged for the epoch whose model is in `best/`."""
    records = json.loads((run / "history.json").read_text()).values()
    return max((record["values"] for record in records), key=lambda values: values["val_acc"])
