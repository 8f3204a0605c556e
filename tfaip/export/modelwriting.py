"""Writing of model directories: `best/` and `export/` of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from tfaip.backend.active import backend
from tfaip.components.modelfiles import SCENARIO_PARAMS_FILE
from tfaip.components.scenario import ScenarioComponents
from tfaip.export.formats import NO_ADVICE, Advice, ExportFormats, export_graphs
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import WEIGHTS_FILE, save_arrays
from tfaip.params import ParamsBase
from tfaip.params.resource import copy_resources
from tfaip.params.stored import save_params
from tfaip.util.files import commit_directory, link_or_copy, link_tree
from tfaip.util.logging import logger
from tfaip.util.manifest import (
    ADDED_FORMATS,
    FORMAT_DIRS,
    FROZEN,
    MANIFEST_FILE,
    MODEL_MARKS,
    ModelDirectory,
    fingerprints,
    read_manifest,
    shown_names,
    write_manifest,
)
from tfaip.version import __version__

log = logger(__name__)


class ModelDirectoryWriter:
    """Writer of a scenario with its current weights; it can write repeatedly.

    Args:
        scenario: its graph must be built.
        further_params: params to store beside those of the scenario, by file name.
        advice: ends errors of formats.

    Raises:
        UsageError: if a format that the params ask for (`export_serve` ...) cannot be written here.
    """

    def __init__(
        self,
        scenario: ScenarioComponents[Any, Any],
        further_params: Mapping[str, ParamsBase] = MappingProxyType({}),
        advice: Advice = NO_ADVICE,
    ) -> None:
        self._scenario = scenario
        self._further_params = dict(further_params)
        # The options are export_serve, export_keras and export_onnx.
        wanted = [name for name in FORMAT_DIRS if getattr(scenario.params, f"export_{name}")]
        self.formats = ExportFormats(export_graphs(scenario), wanted, advice) if wanted else None

    def has_checked(self, other: ModelDirectoryWriter) -> bool:
        """Return True if all formats of another writer of the same model were compared with the graph by this one."""
        return other.formats is None or (self.formats is not None and other.formats.names <= self.formats.compared)

    def write(self, path: Path) -> None:
        """Replace the directory `path` in one commit.

        Formats that `add_formats` wrote there, and files that users put there, are kept if the model is the same as
        before; else they are removed, with a warning that names them.

        Raises:
            TfaipError: if it cannot be written, or `path` is something else than a model.
        """
        self.begin(path)()

    def begin(self, path: Path, weights: Mapping[str, np.ndarray] | None = None) -> Callable[[], None]:
        """Write all that is read from the model, see `write`; replace nothing yet."""
        with ExitStack() as stack:
            directory = stack.enter_context(commit_directory(path, MODEL_MARKS))
            self._write_params(directory)
            files = None if weights is not None else self._write_values(directory, None)
            opened = stack.pop_all()

        def commit() -> None:
            with opened:
                written = files or self._write_values(directory, weights)
                before = ModelDirectory.at(path)
                is_same = before.model_files() == written
                kept = []
                for name in before.added_formats:
                    if is_same and not (directory / name).exists() and _keep(name, path, directory):
                        kept.append(name)
                # Of these the checksums of before, so that damage is still known.
                write_manifest(directory, self._origin(kept), {**before.files_of(kept), **written})
                further = [*(name for name in before.added_formats if name not in kept), *before.foreign_entries()]
                removed = [name for name in further if not is_same or not _keep(name, path, directory)]
            if removed:
                log.warning("files of the previous model were removed from %s: %s", path, shown_names(removed))

        return commit

    @property
    def writes_values(self) -> bool:
        """True if a model can be written with given weights, without the model."""
        return self.formats is None or self.formats.writes_values

    def _write_values(self, directory: Path, weights: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
        """Write weights (None: those of the model) and formats; return size and checksum of all files but formats."""
        values = weights
        if values is None:
            values = {path: backend.host_view(v) for path, v in variables_by_path(self._scenario.graph).items()}
        files = fingerprints(directory, {WEIGHTS_FILE: save_arrays(directory / WEIGHTS_FILE, values)})
        del values  # views of the weights, which must end before the next step
        if self.formats is not None:
            self.formats.write(directory, weights)
        return files

    def _write_params(self, directory: Path) -> None:
        params = copy_resources(self._scenario.params, directory)
        params.scenario_id = self._scenario.scenario_id()
        save_params(directory / SCENARIO_PARAMS_FILE, params)
        for name, further in self._further_params.items():
            save_params(directory / name, further)

    def _origin(self, added_formats: Sequence[str]) -> dict[str, Any]:
        """Return what the manifest says besides the files."""
        origin: dict[str, Any] = {
            "backend": keras.backend.backend(),
            "precision": self._scenario.graph.dtype_policy.name,
            "versions": {"tfaip": __version__, "keras": keras.__version__},
        }
        weights = variables_by_path(self._scenario.graph)
        frozen = [path for path, w in weights.items() if not w.trainable and getattr(w, "regularizer", None)]
        if frozen:
            origin[FROZEN] = frozen
        if added_formats:
            origin[ADDED_FORMATS] = list(added_formats)
        return origin


def _keep(name: str, path: Path, directory: Path) -> bool:
    """Link a user's entry of the model `path` into its next version; return False if it has no place."""
    target = directory / name
    if os.path.lexists(target):
        # It was linked with its format, or it is a directory where one was written now.
        return all(os.path.lexists(directory / entry.relative_to(path)) for entry in (path / name).rglob("*"))
    if not target.parent.is_dir():
        return False
    _link_entry(path / name, target)
    return True


def add_formats(
    scenario: ScenarioComponents[Any, Any],
    path: Path,
    names: Sequence[str],
    inputs: dict[str, np.ndarray],
    advice: Advice = NO_ADVICE,
) -> None:
    """Write an existing model in further formats, in one commit of its directory."""
    formats = ExportFormats(export_graphs(scenario), names, advice)
    formats.check_with_write(inputs)
    path = path.resolve()  # `.` has no name, and a link to the directory must not be replaced
    origin = {name: value for name, value in read_manifest(path).items() if name != "files"}
    origin[ADDED_FORMATS] = sorted({*ModelDirectory.at(path).added_formats, *names})
    with commit_directory(path, MODEL_MARKS) as directory:
        for entry in path.iterdir():
            if entry.name not in (*names, MANIFEST_FILE):
                _link_entry(entry, directory / entry.name)
        formats.write(directory)
        write_manifest(directory, origin)


def _link_entry(source: Path, target: Path) -> None:
    """Copy a file, directory or link to `target`, which does not exist, as `link_tree` does."""
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    elif source.is_dir():
        link_tree(source, target)
    else:
        link_or_copy(str(source), str(target))
