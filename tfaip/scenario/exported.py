"""From the directory of an exported model to a scenario with its weights; nothing in the directory is executed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.scenario.loading import Scenario, load_trusted_scenario
from tfaip.scenario.scenariobase import SCENARIO_PARAMS_FILE, ScenarioBase
from tfaip.util.manifest import read_manifest
from tfaip.util.reading import read_json
from tfaip.util.text import shorten


def load_exported_params(path: str | Path, trusted: Iterable[str] = ()) -> tuple[Scenario, Any]:
    """The scenario class that a model directory names, and its params; needs no backend.

    Args:
        path: `best/` or `export/` of a run.
        trusted: packages that the params may name classes of, besides tfaip and the scenario's own.

    Raises:
        UsageError: no model directory, a damaged one, or one that names what it must not.
    """
    path = Path(path)
    require_model(path)
    file = path / SCENARIO_PARAMS_FILE
    scenario_id = read_json(file).get("scenario_id")
    if not isinstance(scenario_id, str):
        raise UsageError(f"{file} names no scenario (scenario_id is {shorten(scenario_id)}, expected 'module:Class')")
    scenario = load_trusted_scenario(scenario_id)
    return scenario, scenario.params_from_path(path, trusted)


def require_model(path: Path) -> None:
    """Check that a directory may be that of an exported model.

    Raises:
        UsageError: it has no scenario params; the message says what is there instead.
    """
    if not (path / SCENARIO_PARAMS_FILE).is_file():
        raise UsageError(f"no exported model at {path}: {_what_is_there(path)}")


def _what_is_there(path: Path) -> str:
    if not path.is_dir():
        return "not a directory" if path.exists() else "the path does not exist"
    models = sorted(str(file.parent) for file in path.glob(f"*/{SCENARIO_PARAMS_FILE}"))
    if models:
        return f"it holds exported models, give one of them: {', '.join(models)}"
    return f"the directory has no {SCENARIO_PARAMS_FILE} (expected best/ or export/ of a run)"


def backend_of(path: Path) -> str | None:
    """The backend that wrote a model directory; None: it does not say."""
    try:
        return read_manifest(path).get("backend")
    except TfaipError:
        return None  # older ones have no manifest; damage is found when something is read


def load_exported(path: str | Path, trusted: Iterable[str] = ()) -> ScenarioBase[Any, Any]:
    """Rebuild an exported model from the code of its scenario and the weights of the directory.

    Args:
        path: `best/` or `export/` of a run, written on whatever backend.
        trusted: as in `load_exported_params`.

    Raises:
        UsageError: as in `load_exported_params`.
        TfaipError: as in `load_weights`.
    """
    scenario, params = load_exported_params(path, trusted)
    loaded = scenario(params)
    load_weights(loaded, Path(path))
    return loaded


def load_weights(scenario: ScenarioBase[Any, Any], path: Path) -> None:
    """Build the graph of a scenario and give it the weights of a model directory.

    Args:
        scenario: of the params in the directory.
        path: the model directory; its weights are compared with its manifest, if it has one.

    Raises:
        TfaipError: the weights are missing or damaged, or belong to another model.
    """
    from tfaip.model.trainingmodel import TrainingModel
    from tfaip.model.variables import variables_by_path
    from tfaip.model.weights import WEIGHTS_FILE, assign_arrays, load_weights_of

    arrays = load_weights_of(path)
    graph, inputs = scenario.graph, scenario.data.create_input_layers()
    graph.predict(inputs)
    if arrays.keys() - variables_by_path(graph).keys():
        # The training graph may have variables of its own, which were stored too.
        TrainingModel(scenario.model, graph).build_symbolically(inputs, scenario.data.create_target_layers())
    assign_arrays(variables_by_path(graph), arrays, str(path / WEIGHTS_FILE))
