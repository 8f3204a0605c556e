"""Exported models that a command line names, and the data that they are applied to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaip.backend.selection import prefer_backend
from tfaip.components.formermodel import is_model
from tfaip.components.scenarioparamsfile import SCENARIO_PARAMS_FILE
from tfaip.errors import UsageError
from tfaip.params.sharing import fill_shared
from tfaip.scripts.common import command
from tfaip.trainer.run.directory import find_run, model_of_run
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.util.manifest import verify_files

# Known here because the modules that write them import a backend.
_SERVE_DIR, _CHECKPOINT_FILE = "serve", "state.safetensors"


@dataclass
class Models:
    """Exported models that a user named.

    Args:
        paths: their directories.
        trusted: packages of `--trust`, whose classes stored params may name.
        flags: the rest of the command line.
        scenario: class of the scenario of the first one.
        params: its scenario params.
        training_data: the data that it was trained with; None: unknown.
    """

    paths: list[Path]
    trusted: list[str]
    flags: list[str]
    scenario: Any
    params: Any
    training_data: Any

    def all_trusted(self) -> list[str]:
        """Return the packages that files may name classes of, with those of the scenario."""
        return [*self.scenario.declared_packages(), *self.trusted]

    def use_training_pipeline(self, params: Any) -> None:
        """Use the pipeline and the seed of the training's validation, if known, for LAV or a prediction."""
        if self.training_data is not None:
            params.pipeline = self.training_data.gen.setup.val
            params.random_seed = self.training_data.random_seed


def exported_model(path: Path) -> Path:
    """Return the model directory that a user means.

    Args:
        path: a model directory, its `serve/`, or a run, which means its best model (its final one
            if it has no best); of tfaip 1.2 also a file of params with a SavedModel beside it.

    Raises:
        UsageError: if it is a checkpoint, or a run that has no model yet. Any other path is
            returned unchanged.
    """
    if is_model(path):
        return path
    # `.` has a parent only when it is resolved.
    parent = path.parent if path.name == _SERVE_DIR else path.resolve().parent
    if path.resolve().name == _SERVE_DIR and (parent / SCENARIO_PARAMS_FILE).is_file():
        return parent
    if (path / PARAMS_FILE).is_file():
        model = model_of_run(path)
        if model is None:
            raise UsageError(f"the run {path} holds no exported model yet (best/ or export/): train an epoch first")
        return model
    if _is_checkpoint(path):
        run = find_run(path)[0]
        model = model_of_run(run) or run / "best"
        raise UsageError(f"{path} is a checkpoint, which holds no exported model: give {model}/ or the run {run}")
    return path


def _is_checkpoint(path: Path) -> bool:
    """Return True for a checkpoint, or the directory of checkpoints, of a run."""
    holds_one = (path / _CHECKPOINT_FILE).is_file()
    holds_several = path.is_dir() and any((entry / _CHECKPOINT_FILE).is_file() for entry in path.iterdir())
    parents = [*path.resolve().parents][:2]
    return (holds_one or holds_several) and any((parent / PARAMS_FILE).is_file() for parent in parents)


def open_models(directories: Sequence[str | Path], flags: Sequence[str]) -> Models:
    """Load the params of exported models; imports no backend.

    Args:
        directories: as in `exported_model`.
        flags: the rest of the command line.

    Raises:
        UsageError: if the first one is not a model.
    """
    from tfaip.export.modelloading import backend_of, load_exported_params
    from tfaip.export.trainingdata import load_training_data

    paths = [exported_model(Path(directory)) for directory in directories]
    # Only the backend that wrote a model gives the same values. Scenario code may import Keras.
    prefer_backend(backend_of(paths[0]))
    trusted, flags = command.take_trusted(flags)
    scenario, params = load_exported_params(paths[0], trusted)
    training_data = load_training_data(paths[0], scenario, trusted)
    if training_data is not None:
        fill_shared(training_data, params, strict=False)
    return Models(paths, trusted, flags, scenario, params, training_data)


def open_verified(path: Path, flags: Sequence[str]) -> Models:
    """Load the params of a model after its files have been compared with its manifest.

    Args:
        path: as in `exported_model`.
        flags: the rest of the command line.
    """
    path = exported_model(path)
    if (path / SCENARIO_PARAMS_FILE).is_file():
        verify_files(path)
    return open_models([path], flags)
