"""Weights of models that tfaip 1.2 exported: read from their SavedModels, for graphs of today's code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tfaip.components.formermodel import FormerModel
from tfaip.components.scenario import ScenarioComponents
from tfaip.errors import TfaipError
from tfaip.export.savedmodelvariables import read_saved_model
from tfaip.model.tails import match_tails
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import built_within
from tfaip.model.weightsource import Source
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

_SHOWN = 4

log = logger(__name__)


def load_former_weights(scenario: ScenarioComponents[Any, Any], model: FormerModel) -> None:
    """Build the graph of a scenario and give it the weights of a model of tfaip 1.2.

    Raises:
        TfaipError: if the model is damaged, or lacks a weight of the graph, or has it in another shape.
    """
    source = read_saved_model(model.saved_model)
    with built_within(source.arrays, str(model.saved_model)):
        graph = scenario.graph
        graph.predict(scenario.data.create_input_layers())
    weight_ids = {id(weight) for weight in graph.weights}
    # States of random generators are no weights.
    weights = {path: variable for path, variable in variables_by_path(graph).items() if id(variable) in weight_ids}
    arrays = _arrays_of(list(weights), source)
    _require_fitting({path: tuple(variable.shape) for path, variable in weights.items()}, arrays, model.saved_model)
    for path, variable in weights.items():
        variable.assign(arrays[path])
    log.info("%d weights read from %s, a model of tfaip 1.2", len(arrays), model.saved_model)


def _arrays_of(paths: Sequence[str], source: Source) -> dict[str, np.ndarray]:
    """Return the array of each path that the source has, by its name or by the end of it."""
    names = {**source.aliases, **{name: name for name in source.arrays}}
    found = {path: names[path] for path in paths if path in names}
    matches = match_tails([path for path in paths if path not in found], names, set(found.values()))
    found.update({path: match.name for path, match in matches.items() if match.name is not None})
    return {path: source.arrays[name] for path, name in found.items()}


def _require_fitting(shapes: Mapping[str, Any], arrays: Mapping[str, np.ndarray], place: Path) -> None:
    problems = [path for path in shapes if path not in arrays]
    for path, shape in shapes.items():
        if path in arrays and arrays[path].shape != shape:
            problems.append(f"{path} (shape {list(arrays[path].shape)}, needed {list(shape)})")
    if problems:
        shown = ", ".join(shorten_text(problem, 80) for problem in problems[:_SHOWN])
        more = f" and {len(problems) - _SHOWN} more" if len(problems) > _SHOWN else ""
        raise TfaipError(
            f"{place} does not have {len(problems)} of the {len(shapes)} weights of the graph: {shown}{more}; give the "
            "layers the attributes that they had in tfaip 1.2"
        )
