"""A small training of a scenario in a temporary directory, which several checks share."""

from __future__ import annotations

import contextlib
import copy
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from tfaip.components.userlogs import console_unless_configured
from tfaip.params.settings import set_flags
from tfaip.trainer.params import ProgressBarMode
from tfaip.trainer.run.names import CHECKPOINT_NAME
from tfaip.util.logging import only_warnings

NO_FLAGS: Mapping[str, Any] = MappingProxyType({})
_UPDATES_PER_EPOCH = 2


def small_trainer_params(scenario: Any, flags: Mapping[str, Any] = NO_FLAGS) -> Any:
    """Return trainer params of a training of seconds: two epochs of two updates, with a checkpoint after each update.

    It has no stages and no pretraining, validates a batch and one sample more, reads the data in its own process, and
    has a seed.

    Args:
        scenario: class of the scenario, whose default params these are otherwise.
        flags: values by flag; they count more than what is said above.
    """
    params = scenario.default_trainer_params()
    params.set_flags(dict(flags))
    train, val = params.gen.setup.train, params.gen.setup.val
    small = {
        "trainer.epochs": 2,
        "pretraining.max_epochs": 0,
        "trainer.samples_per_epoch": _UPDATES_PER_EPOCH * params.train_accum_steps * train.batch_size,
        "trainer.random_seed": 1,
        "trainer.steps_per_execution": 1,
        "trainer.checkpoint_save_freq": "1",
        "trainer.keep_checkpoints": 8,
        "trainer.skip_model_load_test": True,  # another test compares the export
        "trainer.progress_bar_mode": ProgressBarMode.PLAIN,
        "train.num_processes": 0,
        "val.num_processes": 0,
        "val.limit": val.batch_size + 1,
    }
    if not any(flag.split(".")[0] == "stages" for flag in flags):
        params.stages = {}
    set_flags(params, {flag: value for flag, value in small.items() if flag not in flags})
    return params


class SmallTraining:
    """Training of a scenario that has ended, and its directory; `close` removes it.

    Args:
        params: the trainer params; their `output_dir` is not used.
        scenario: class of the scenario.

    Raises:
        Exception: whatever ends the training.
    """

    def __init__(self, params: Any, scenario: Any) -> None:
        self.params = params
        self.scenario = scenario
        self._directory = tempfile.TemporaryDirectory(prefix="tfaip-test-")
        self.run = Path(self._directory.name) / "run"
        """Directory of the run."""
        self.changed: set[str] = set()
        """Paths of the trained weights that the training has changed."""
        try:
            self._train()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Remove the directory."""
        self._directory.cleanup()

    def params_for(self, run: Path) -> Any:
        """Return a copy of the params for another directory."""
        params = copy.deepcopy(self.params)
        params.output_dir = str(run)
        return params

    def model(self) -> Path:
        """Return the directory of the exported model: the best one, or the final one.

        Raises:
            AssertionError: if there is none.
        """
        from tfaip.trainer.run.directory import model_of_run

        model = model_of_run(self.run)
        if model is None:
            raise AssertionError("the training exported no model: set export_best or export_final of its params")
        return model

    def resumed(self) -> Path:
        """Copy the run, resume it from its first checkpoint, and return the directory of the copy."""
        resumed = self.run.with_name("resumed")
        shutil.copytree(self.run, resumed)
        with _quiet():
            params = self.params_for(resumed)
            self.scenario.create_trainer(params, restore=True, checkpoint=self.checkpoints()[0]).train()
        return resumed

    def checkpoints(self) -> list[str]:
        """Return the names of the checkpoints, the oldest first."""
        directory = self.params_for(self.run).run_directory().checkpoints
        return sorted(path.name for path in directory.iterdir() if CHECKPOINT_NAME.fullmatch(path.name))

    def state(self, run: Path) -> dict[str, Any]:
        """Return the arrays of the newest checkpoint of a run by name."""
        from tfaip.model.weights import load_arrays
        from tfaip.trainer.run.checkpoint import ARRAYS_FILE

        directory = self.params_for(run).run_directory().checkpoints
        return load_arrays(directory / self.checkpoints()[-1] / ARRAYS_FILE)

    def history(self, run: Path) -> dict[str, dict[str, float]]:
        """Return the values of each epoch of a run."""
        records = json.loads((run / "history.json").read_text(encoding="utf-8"))
        return {epoch: record["values"] for epoch, record in records.items()}

    def _train(self) -> None:
        import keras

        from tfaip.model.variables import variables_by_path
        from tfaip.model.weights import variable_arrays

        def weights() -> dict[str, np.ndarray]:
            variables = variables_by_path(trainer.scenario.graph)
            return variable_arrays({path: variable for path, variable in variables.items() if variable.trainable})

        def compare(logs: Any) -> None:
            self.changed = {path for path, after in weights().items() if not np.array_equal(before[path], after)}

        before: dict[str, np.ndarray] = {}
        with _quiet():
            trainer = self.scenario.create_trainer(self.params_for(self.run))
            watch = keras.callbacks.LambdaCallback(
                on_train_begin=lambda logs: before.update(weights()), on_train_end=compare
            )
            trainer.train([watch])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with console_unless_configured(), only_warnings():
        yield
