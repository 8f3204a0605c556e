"""Warm start of a fresh model with the weights of other models, and a log of what was loaded."""

from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.components.modelfiles import find_former_model
from tfaip.errors import UsageError
from tfaip.export.savedmodelformat import SERVE_DIR
from tfaip.export.savedmodelvariables import VARIABLES_DIR, has_variables, read_saved_model
from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.structure.axis import Structure
from tfaip.model.transfer import (
    AVERAGE,
    Outcome,
    Row,
    Transfer,
    log_transfer,
    plan_transfer,
    shape_text,
)
from tfaip.model.variables import variables_by_path
from tfaip.model.weightrules import matching_paths
from tfaip.model.weights import WEIGHTS_FILE, load_weights_of, variable_arrays
from tfaip.model.weightsource import Source
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.run.directory import RunDirectory, model_of_run
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.trainer.run.output import ARRAYS_FILE, WEIGHTS, Checkpoint, CheckpointStore, read_checkpoint
from tfaip.trainer.transferparams import WarmStartMode, WarmStartParams
from tfaip.util.classes import overrides, refuse_uncalled
from tfaip.util.files import path_problem
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

_SHOWN = 2
_UNCALLED = {
    **dict.fromkeys(("_apply_renamings", "_auto_replace_numbers", "_replace_name"), "_trim"),
    **{"warmstart": "read_sources or apply_weights", "_transform_weight": "apply_weights"},
}

log = logger(__name__)


class WarmStarter:
    """Loader of initial weights into a graph.

    Override `read_sources` to take them from elsewhere, `_trim` to find them by other names, and
    `apply_weights` to change them, for example to another size.

    Args:
        params: params of the warm start.
    """

    def __init__(self, params: WarmStartParams) -> None:
        refuse_uncalled(type(self), WarmStarter, _UNCALLED)
        self._params = params

    @property
    def params(self) -> WarmStartParams:
        """Params of the warm start."""
        return self._params

    def read_sources(self) -> list[Source]:
        """Read the sources of weights; for each weight the first one that has it is used.

        Returns:
            The sources, none if there is no warm start.

        Raises:
            TfaipError: if a source cannot be read.
        """
        return [read_source(Path(path), self._params.trim_graph_name) for path in self._params.sources()]

    def apply(self, graph: GenericGraphBase[Any], structure: Callable[[], Structure] | None = None) -> None:
        """Load the weights and log what was loaded, skipped and left fresh; without sources do nothing.

        Args:
            graph: the outermost graph, built; its optimizer is not built yet (averages start at the weights).
            structure: returns the dimensions that its weights consist of, for `mode` subset; None: they are not known.

        Raises:
            FieldAdvice: if nothing matches, or if something does not match and `allow_partial` is False; then no
                weight was assigned. Its path begins at the params.
        """
        read = self.read_sources()
        if not read:
            return
        variables = variables_by_path(graph)
        weight_ids = {id(weight) for weight in graph.weights}
        weights = {path: variables[path] for path in sorted(variables) if id(variables[path]) in weight_ids}
        # States of random generators are not weights: they are neither loaded nor reported.
        sources = [self._trimmed(source, set(variables) - set(weights)) for source in read]
        rules = self._params
        for name, pattern in (("include", rules.include), ("exclude", rules.exclude)):
            if pattern is not None:
                matching_paths(pattern, name, "weight", weights)
        shapes = {path: tuple(variable.shape) for path, variable in weights.items()}
        known = structure() if rules.mode is WarmStartMode.SUBSET and structure is not None else {}
        transfer = plan_transfer(shapes, sources, rules, rules.mode, known)
        what = ", ".join(source.description for source in sources)
        log_transfer(transfer, f"warm start from {what}")
        is_own = overrides(type(self), WarmStarter, "apply_weights")
        _check(transfer, what, rules, any_shape=is_own)
        values = variable_arrays(weights)
        values |= transfer.arrays(values)
        if is_own:
            differing = transfer.with_outcome(Outcome.SHAPE_DIFFERS)
            values |= {row.target: transfer.array(row.found) for row in differing if row.found is not None}
        paths = {id(weight): path for path, weight in weights.items()}
        self.apply_weights(graph, [values[paths[id(weight)]] for weight in graph.weights])

    def apply_weights(self, target_model: keras.layers.Layer, new_weights: list[np.ndarray]) -> None:
        """Assign weights; an override may change them before.

        Args:
            target_model: the outermost graph.
            new_weights: a value for each of its `weights`, in this order. To an override they may come in
                the shape that they have in their source; what no source has is as initialised.
        """
        for variable, array in zip(target_model.weights, new_weights, strict=True):
            variable.assign(array)

    def _trim(self, names: list[str]) -> list[str]:
        """Return the paths by which the weights of a source are found; default: their own names."""
        return names

    def _trimmed(self, source: Source, states: Collection[str]) -> Source:
        """Return a source with the names that `_trim` gives, without those of states."""
        names = [*source.arrays, *source.aliases]
        found = dict(zip(names, self._trim(names), strict=True))
        if len({found[name] for name in source.arrays}) < len(source.arrays):
            raise ValueError(f"{type(self).__name__}._trim gives several weights of {source.description} one name")
        arrays = {found[name]: array for name, array in source.arrays.items() if found[name] not in states}
        aliases = {found[alias]: found[name] for alias, name in source.aliases.items() if found[alias] not in states}
        return replace(source, arrays=arrays, aliases=aliases)


def _check(transfer: Transfer, what: str, rules: WarmStartParams, any_shape: bool) -> None:
    usable = [Outcome.LOADED, Outcome.PARTLY_LOADED, *([Outcome.SHAPE_DIFFERS] if any_shape else [])]
    loaded = transfer.with_outcome(*usable)
    missing = [row for row in transfer.rows if row.outcome not in (*usable, Outcome.EXCLUDED)]
    needed, fields, more = _some([_difference(row) for row in missing]), [], ""
    if any(row.reason and row.found for row in missing):
        fields, more = ["blocks"], ", or give the sizes of joined inputs with {blocks} 'path=[3,5,5,7]'"
    elif rules.mode is WarmStartMode.EXACT and any(row.found for row in missing):
        fields, more = ["mode"], ", or take the parts that both shapes have with {mode} subset"
    if not loaded:
        found = sorted(name for source in transfer.sources for name in source.arrays)
        text = f"nothing in {what} matches the model: it holds {_some(found)}, the model needs {needed}"
        advice = f"map names with {{rename}} 'old->new', or choose another {{model}}{more}"
        raise FieldAdvice(f"{text}; {advice}", "rename", "model", *fields)
    if missing and not rules.allow_partial:
        count = f"{len(loaded)} of {len(loaded) + len(missing)} weights match"
        advice = f"leave them fresh with {{allow_partial}} True, or map names with {{rename}} 'old->new'{more}"
        text = f"{what} fits the model only in part: {count}, not {needed}; {advice}"
        raise FieldAdvice(text, "allow_partial", "rename", *fields)


def _difference(row: Row) -> str:
    """Describe a target that is not loaded, with the reason if there is one."""
    if row.reason:
        return f"{row.target} (ambiguous: {row.reason})"
    if row.found is not None:
        return f"{row.target} (shape {shape_text(row.found.shape)}, needed {shape_text(row.shape)})"
    return row.target


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more


def read_source(path: str | Path, trim_graph_name: bool = True) -> Source:
    """Read the weights at `path`.

    Args:
        path: an exported model (`best/`, `export/`), the directory of a run (its best model, else its final one, else
            its newest checkpoint), a checkpoint or a directory of checkpoints (averaged weights if it has them),
            or a SavedModel. Models, runs and checkpoints of tfaip 1.2 are SavedModels.
        trim_graph_name: for a SavedModel, see `read_saved_model`.

    Raises:
        UsageError: if there is nothing of this kind.
        TfaipError: if it is damaged.
    """
    path = Path(path)
    if path_problem(path) is not None or not path.is_dir():
        raise UsageError(f"no model at {shorten_text(str(path), 160)}: not a directory, or it does not exist")
    if (path / WEIGHTS_FILE).is_file():
        return Source(str(path), load_weights_of(path))
    if (path / ARRAYS_FILE).is_file():
        return _of_checkpoint(path, read_checkpoint(path))
    former = find_former_model(path)
    if former is not None:
        return read_saved_model(former.saved_model, trim_graph_name)
    if (path / PARAMS_FILE).is_file() and not has_variables(path):
        path = model_of_run(path) or RunDirectory.stored(path).checkpoints
        if (path / WEIGHTS_FILE).is_file():
            return Source(str(path), load_weights_of(path))
    store = CheckpointStore(path)
    if store.checkpoints():
        name, checkpoint = store.read()
        return _of_checkpoint(path / name, checkpoint)
    # tfaip 1.2 wrote the variables of its checkpoints, as those of a SavedModel, beside the params of the run.
    for directory in (path, path / SERVE_DIR, path.parent if path.name == VARIABLES_DIR else path):
        if has_variables(directory):
            if (
                directory.parent / WEIGHTS_FILE
            ).is_file():  # of an exported model: a SavedModel lacks the paths of weights
                return Source(str(directory), load_weights_of(directory.parent))
            return read_saved_model(directory, trim_graph_name)
    raise UsageError(
        f"no model at {path}: expected an exported model ({WEIGHTS_FILE}), a run ({PARAMS_FILE}), a checkpoint "
        f"({ARRAYS_FILE}) or checkpoints, or a SavedModel (saved_model.pb)"
    )


def _of_checkpoint(path: Path, checkpoint: Checkpoint) -> Source:
    raw, averages = (
        {name.removeprefix(prefix): a for name, a in checkpoint.arrays.items() if name.startswith(prefix)}
        for prefix in (WEIGHTS, f"optimizer/{AVERAGE}/")
    )
    return Source(f"{path} (averaged weights)" if averages else str(path), {**raw, **averages})
