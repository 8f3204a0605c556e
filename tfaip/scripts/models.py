"""What the commands that use exported models have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tfaip.errors import UsageError
from tfaip.params.trust import top_package
from tfaip.scripts.stored import take_trusted, take_words
from tfaip.util.backend import prefer_backend
from tfaip.util.text import shorten_text

# Known without the modules that write them, which import a backend.
_SERVE_DIR, _CHECKPOINT_FILE = "serve", "state.safetensors"


@dataclass
class Models:
    """Exported models that a user named.

    Args:
        paths: their directories.
        trusted: packages that stored params may name classes of, besides tfaip and the scenario's own.
        flags: the rest of the command line.
        scenario: class of the scenario of the first one.
        params: its scenario params.
        training_data: the data that it was trained with; None: it does not say.
    """

    paths: list[Path]
    trusted: list[str]
    flags: list[str]
    scenario: Any
    params: Any
    training_data: Any

    def all_trusted(self) -> list[str]:
        """Return the packages that files may name classes of, with the scenario's own."""
        return [top_package(self.scenario.__module__), *self.trusted]


def take_models(argv: Sequence[str], flag: str, prog: str, usage: str, several: bool) -> Models | None:
    """Read from the command line which models are meant, and look at them; imports no backend.

    Args:
        argv: the command line.
        flag: that names them.
        prog: the command.
        usage: printed for `--help` without models.
        several: whether there may be several.

    Returns:
        the models; None: the usage was printed.

    Raises:
        UsageError: no model is named, or one of them is none.
    """
    words, rest = take_words(flag, "the directory of an exported model", argv)
    if not words:
        if rest and rest[0] in ("-h", "--help"):
            print(usage)
            return None
        raise UsageError(f"which model? expected: {prog} {flag} DIR [flags]; see {prog} --help")
    if len(words) > 1 and not several:
        raise UsageError(
            f"{flag} takes one directory, got {shorten_text(' '.join(words))}; tfaip-multi-lav takes several"
        )
    return open_models([exported_model(Path(word)) for word in words], rest)


def exported_model(path: Path) -> Path:
    """Return the model directory that a user means.

    Args:
        path: a model directory, its `serve/`, or a run, which means its best model (its final one if it has no best).

    Raises:
        UsageError: it is a checkpoint, or a run that has no model yet. Any other path is returned as it is.
    """
    from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
    from tfaip.trainer.run_directory import PARAMS_FILE, find_run, model_of_run

    if (path / SCENARIO_PARAMS_FILE).is_file():
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
    from tfaip.trainer.run_directory import PARAMS_FILE

    holds_one = (path / _CHECKPOINT_FILE).is_file()
    holds_several = path.is_dir() and any((entry / _CHECKPOINT_FILE).is_file() for entry in path.iterdir())
    parents = [*path.resolve().parents][:2]
    return (holds_one or holds_several) and any((parent / PARAMS_FILE).is_file() for parent in parents)


def open_models(paths: list[Path], flags: Sequence[str]) -> Models:
    """Look at exported models; imports no backend.

    Args:
        paths: their directories.
        flags: the rest of the command line.

    Raises:
        UsageError: the first one is no model.
    """
    from tfaip.lav.trainingdata import load_training_data
    from tfaip.scenario.exported import backend_of, load_exported_params

    # Only the backend that wrote a model gives its values to the last bit. Code of a scenario may import Keras.
    prefer_backend(backend_of(paths[0]))
    trusted, flags = take_trusted(flags)
    scenario, params = load_exported_params(paths[0], trusted)
    return Models(paths, trusted, flags, scenario, params, load_training_data(paths[0], scenario, trusted))


def open_verified(path: Path, flags: Sequence[str]) -> Models:
    """A model directory whose files are those of its manifest, looked at before anything in it is used.

    Args:
        path: as in `exported_model`.
        flags: the rest of the command line.
    """
    from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE
    from tfaip.util.manifest import verify_files

    path = exported_model(path)
    if (path / SCENARIO_PARAMS_FILE).is_file():
        verify_files(path)
    return open_models([path], flags)


def chosen_data(chosen: Any, defaults: Sequence[Any]) -> list[Any]:
    """The generators to use.

    Args:
        chosen: what the flags `--data.*` made of the first default.
        defaults: generators of the training.

    Returns:
        all defaults if no flag changed anything, else what was chosen.

    Raises:
        UsageError: there is no default, and nothing was chosen.
    """
    from tfaip.data.databaseparams import DataGeneratorParams
    from tfaip.params.tree import diff, is_hidden

    if defaults and type(chosen) is type(defaults[0]):
        changes = diff(defaults[0], chosen)
        if all(is_hidden(chosen, change.path) for change in changes):
            return list(defaults)
    if type(chosen) is DataGeneratorParams:
        raise UsageError(
            "which data? the model knows of no validation data of its training: name a generator, as in "
            "--data my.package:MyGeneratorParams, and what it needs with --data.*"
        )
    return [chosen]
