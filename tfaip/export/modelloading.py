"""Loading of exported models: code of the scenario builds the graph, which gets the weights.

Nothing in a model directory is executed.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfaip.components.loading import ScenarioClass, load_trusted_scenario
from tfaip.components.modelfiles import directory_of, find_former_model, params_file_of
from tfaip.components.scenario import ScenarioComponents
from tfaip.device import Precision
from tfaip.errors import TfaipError, UsageError
from tfaip.util.classes import construct
from tfaip.util.manifest import FROZEN, MANIFEST_FILE, read_manifest
from tfaip.util.reading import read_json
from tfaip.util.text import shorten


def load_exported_params(path: str | Path, trusted: Iterable[str] = ()) -> tuple[ScenarioClass, Any]:
    """Return the scenario class that a model directory names, and its params; load no backend."""
    path = Path(path)
    file, key = params_file_of(path)
    document = read_json(file)
    scenario_id = (document if key is None else document[key]).get("scenario_id")
    if not isinstance(scenario_id, str):
        raise UsageError(f"{file} names no scenario (scenario_id is {shorten(scenario_id)}, expected 'module:Class')")
    scenario = load_trusted_scenario(scenario_id)
    return scenario, scenario.params_from_path(path, trusted)


def backend_of(path: Path) -> str | None:
    """Return the backend that wrote a model directory; None if that is not known."""
    try:
        return read_manifest(path).get("backend")
    except TfaipError:
        return None  # models of tfaip 1.2 have no manifest; damage is reported when the weights are read


def precision_of(path: Path) -> Precision:
    """Return the precision in which the graph of a model directory computed."""
    name = read_manifest(path).get("precision")
    return Precision(name) if name in list(Precision) else Precision.FLOAT32


def load_exported(path: str | Path, trusted: Iterable[str] = ()) -> ScenarioComponents[Any, Any]:
    """Rebuild an exported model from the code of its scenario and the weights of the directory."""
    scenario, params = load_exported_params(path, trusted)
    loaded: ScenarioComponents[Any, Any] = construct(scenario, params)
    load_weights(loaded, Path(path))
    return loaded


def load_weights(scenario: ScenarioComponents[Any, Any], path: Path) -> None:
    """Build the graph of a scenario and give it the weights of a model directory.

    Weights with a regularizer that were not trained are frozen, so that it counts as little as in the training.
    """
    # The module is used without a backend, too.
    from tfaip.export.savedmodelvariables import load_former_weights
    from tfaip.model.trainingmodel import TrainingModel
    from tfaip.model.variables import variables_by_path
    from tfaip.model.weights import WEIGHTS_FILE, assign_arrays, built_within, load_weights_of

    former = find_former_model(path)
    if former is not None:
        load_former_weights(scenario, former)
        return
    path = directory_of(path)
    arrays = load_weights_of(path)
    source = str(path / WEIGHTS_FILE)
    with built_within(arrays, source):
        graph, inputs = scenario.graph, scenario.data.create_input_layers()
        graph.predict(inputs)
        if arrays.keys() - variables_by_path(graph).keys():
            # Variables that only the training graph has were stored too.
            TrainingModel(scenario.model, graph).build_symbolically(inputs, scenario.data.create_target_layers())
    variables = variables_by_path(graph)
    assign_arrays(variables, arrays, source)
    for name in read_manifest(path).get(FROZEN, ()) if (path / MANIFEST_FILE).is_file() else ():
        variables[name].trainable = False
