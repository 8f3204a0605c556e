"""The directory of an exported model: `best/` and `export/`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras

from tfaip import __version__
from tfaip.model.export import SERVE_DIR, ServingExporter
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import WEIGHTS_FILE, save_arrays, variable_arrays
from tfaip.params import ParamsBase
from tfaip.params.resource import copy_resources
from tfaip.params.serialization import save_params
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE, ScenarioBase
from tfaip.util.files import commit_directory
from tfaip.util.manifest import write_manifest


class ModelDirectoryWriter:
    """Writes a scenario with its current weights, as often as asked.

    Args:
        scenario: its graph must be built.
        further_params: params that are stored beside those of the scenario, by the name of their file.

    Raises:
        UsageError: `export_serve` is on and TensorFlow is not installed.
    """

    def __init__(
        self, scenario: ScenarioBase[Any, Any], further_params: Mapping[str, ParamsBase] = MappingProxyType({})
    ) -> None:
        self._scenario = scenario
        self._further_params = dict(further_params)
        self.serving: ServingExporter | None = None
        if scenario.params.export_serve:
            endpoints = scenario.model._export_graphs(scenario.graph)
            self.serving = ServingExporter(scenario.graph, endpoints, scenario.data.create_input_layers())

    def write(self, path: Path) -> None:
        """Replace the directory `path` in one commit."""
        with commit_directory(path) as directory:
            params = copy_resources(self._scenario.params, directory)
            params.scenario_id = self._scenario.scenario_id()
            save_params(directory / SCENARIO_PARAMS_FILE, params)
            for name, further in self._further_params.items():
                save_params(directory / name, further)
            save_arrays(directory / WEIGHTS_FILE, variable_arrays(variables_by_path(self._scenario.graph)))
            if self.serving is not None:
                self.serving.write(directory / SERVE_DIR)
            write_manifest(directory, _origin())


def _origin() -> dict[str, Any]:
    return {
        "backend": keras.backend.backend(),
        "versions": {"tfaip": __version__, "keras": keras.__version__},
    }
