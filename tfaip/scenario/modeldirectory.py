"""The directory of an exported model: `best/` and `export/`."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import numpy as np

from tfaip import __version__
from tfaip.model.export import SERVE_DIR
from tfaip.model.exportgraph import ExportGraphs
from tfaip.model.formats import BY_COMMAND, IN_TRAINING, Advice, ExportFormats
from tfaip.model.kerasexport import KERAS_DIR
from tfaip.model.onnxexport import ONNX_DIR
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import WEIGHTS_FILE, save_arrays, variable_arrays
from tfaip.params import ParamsBase
from tfaip.params.resource import copy_resources
from tfaip.params.serialization import save_params
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE, ScenarioBase
from tfaip.scenario.writtenmodel import ADDED_FORMATS, WrittenModel, shown_names
from tfaip.util.files import commit_directory, link_entry
from tfaip.util.logging import logger
from tfaip.util.manifest import MANIFEST_FILE, MODEL_MARKS, fingerprints, read_manifest, write_manifest
from tfaip.util.text import shorten_text

log = logger(__name__)


class ModelDirectoryWriter:
    """Writes a scenario with its current weights, as often as asked.

    Args:
        scenario: its graph must be built.
        further_params: params that are stored beside those of the scenario, by the name of their file.

    Raises:
        UsageError: a format that the params ask for (`export_serve` ...) cannot be written here.
    """

    def __init__(
        self, scenario: ScenarioBase[Any, Any], further_params: Mapping[str, ParamsBase] = MappingProxyType({})
    ) -> None:
        self._scenario = scenario
        self._further_params = dict(further_params)
        params = scenario.params
        wanted = {SERVE_DIR: params.export_serve, KERAS_DIR: params.export_keras, ONNX_DIR: params.export_onnx}
        self._added: dict[str, ExportFormats] = {}
        self.formats = create_formats(scenario, [name for name, is_on in wanted.items() if is_on])

    def write(self, path: Path) -> None:
        """Replace the directory `path` in one commit.

        Formats that `add_formats` wrote there are written for the new model too. Other files that users put there stay
        if the model is the same as before; else they go, with a warning that names them.

        Raises:
            TfaipError: it cannot be written, or what is there is no model.
        """
        with commit_directory(path, MODEL_MARKS) as directory:
            self._write_model(directory)
            before = WrittenModel.at(path)
            is_same = before.model_files() == fingerprints(directory)
            if self.formats is not None:
                self.formats.write(directory)
            added = [name for name in before.added_formats if not (directory / name).exists()]
            lost = {name: problem for name in added if (problem := self._add_format(name, before, directory, is_same))}
            written = [name for name in before.added_formats if name not in lost]
            write_manifest(directory, _origin(written))
            foreign = [name for name in before.foreign_entries() if not is_same or not _keep(name, path, directory)]
        for name, problem in lost.items():
            log.warning("%s/ of the model before is gone, the new one cannot be written so: %s", path / name, problem)
        if foreign:
            log.warning("files that belonged to the model before are gone from %s: %s", path, shown_names(foreign))

    def _write_model(self, directory: Path) -> None:
        params = copy_resources(self._scenario.params, directory)
        params.scenario_id = self._scenario.scenario_id()
        save_params(directory / SCENARIO_PARAMS_FILE, params)
        for name, further in self._further_params.items():
            save_params(directory / name, further)
        save_arrays(directory / WEIGHTS_FILE, variable_arrays(variables_by_path(self._scenario.graph)))

    def _add_format(self, name: str, before: WrittenModel, directory: Path, is_same: bool) -> str | None:
        """Write a format that was added to the model before; returns why that is not possible, or None."""
        if is_same and before.damage([name]) is None:
            link_entry(before.path / name, directory / name)
            return None
        try:
            if name not in self._added:
                self._added[name] = ExportFormats(export_graphs(self._scenario), [name])
            self._added[name].write(directory)
        except Exception as error:  # of any converter: no reason to stop a training
            shutil.rmtree(directory / name, ignore_errors=True)
            return shorten_text(str(error), 160)
        return None


def _keep(name: str, path: Path, directory: Path) -> bool:
    """Let what a user put into the model `path` be in its next version `directory` too; False: there is no place."""
    target = directory / name
    if os.path.lexists(target):
        # It came with the format that it lies in; or it is a directory in the place of one that is written now.
        return all(os.path.lexists(directory / entry.relative_to(path)) for entry in (path / name).rglob("*"))
    if not target.parent.is_dir():
        return False
    link_entry(path / name, target)
    return True


def add_formats(
    scenario: ScenarioBase[Any, Any], path: Path, names: Sequence[str], inputs: dict[str, np.ndarray]
) -> None:
    """Write a model that exists already in further formats, in one commit of its directory.

    Args:
        scenario: with the weights of the directory.
        path: the directory.
        names: of `tfaip.model.formats.FORMATS`; what is there already is written anew.
        inputs: a batch, on which they are compared with the graph first.

    Raises:
        UsageError: a format cannot be written here.
        TfaipError: a graph cannot be expressed in a format, or gives other outputs there.
    """
    formats = ExportFormats(export_graphs(scenario), names, BY_COMMAND)
    formats.check(inputs)
    path = path.resolve()  # `.` has no name, and a link stays a link
    origin = {name: value for name, value in read_manifest(path).items() if name != "files"}
    origin[ADDED_FORMATS] = sorted({*WrittenModel.at(path).added_formats, *names})
    with commit_directory(path, MODEL_MARKS) as directory:
        for entry in path.iterdir():
            if entry.name not in (*names, MANIFEST_FILE):
                link_entry(entry, directory / entry.name)
        formats.write(directory)
        write_manifest(directory, origin)


def create_formats(
    scenario: ScenarioBase[Any, Any], names: Sequence[str], advice: Advice = IN_TRAINING
) -> ExportFormats | None:
    """What writes the graphs of a scenario for other programs; None if no format is asked for.

    Args:
        scenario: its graph must be built.
        names: of `tfaip.model.formats.FORMATS`.
        advice: as in `ExportFormats`.

    Raises:
        UsageError: a format cannot be written here.
    """
    return ExportFormats(export_graphs(scenario), names, advice) if names else None


def export_graphs(scenario: ScenarioBase[Any, Any]) -> ExportGraphs:
    """What is exported of a scenario; its graph must be built."""
    functions = scenario.model._export_graphs(scenario.graph)
    return ExportGraphs(scenario.graph, functions, scenario.data.create_input_layers())


def _origin(added_formats: Sequence[str]) -> dict[str, Any]:
    origin: dict[str, Any] = {
        "backend": keras.backend.backend(),
        "versions": {"tfaip": __version__, "keras": keras.__version__},
    }
    return {**origin, ADDED_FORMATS: list(added_formats)} if added_formats else origin
