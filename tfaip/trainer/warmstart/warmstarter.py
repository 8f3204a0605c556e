"""Warm start of a fresh model with the weights of other models, and a log of what was loaded."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tfaip.model.graphbase import GenericGraphBase
from tfaip.model.structure.axis import Structure
from tfaip.model.variables import variables_by_path
from tfaip.model.weights import variable_arrays
from tfaip.params.fields import FieldAdvice
from tfaip.trainer.pathpatterns import matching_paths
from tfaip.trainer.transfer.names import NameRules
from tfaip.trainer.transfer.params import TransferMode
from tfaip.trainer.transfer.plan import Outcome, Row, Source, Transfer, plan_transfer
from tfaip.trainer.transfer.table import shape_text, transfer_table
from tfaip.trainer.warmstart.params import WarmStartMode, WarmStartParams
from tfaip.trainer.warmstart.sources import read_source
from tfaip.util.logging import logger
from tfaip.util.overriding import overrides

_SHOWN = 5

log = logger(__name__)


class WarmStarter:
    """Loader of initial weights into a graph.

    Override `read_sources` to take them from elsewhere, `_trim` to find them by other names, and
    `apply_weights` to change them, for example to another size.

    Args:
        params: params of the warm start.
    """

    def __init__(self, params: WarmStartParams) -> None:
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
        sources = []
        for path, prefix in self._params.sources():
            source = read_source(Path(path), self._params.trim_graph_name)
            sources.append(source.below(prefix) if prefix else source)
        return sources

    def apply(self, graph: GenericGraphBase[Any], structure: Callable[[], Structure] | None = None) -> None:
        """Load the weights and log what was loaded, skipped and left fresh; without sources do nothing.

        Args:
            graph: the outermost graph, built; its optimizer is not built yet (averages start at the weights).
            structure: returns the dimensions that its weights consist of, for `mode` subset; None: they are not known.

        Raises:
            FieldAdvice: if nothing matches, or if something does not match and `allow_partial` is False; then no
                weight was assigned. Its path begins at the params.
        """
        sources = [self._trimmed(source) for source in self.read_sources()]
        if not sources:
            return
        variables = variables_by_path(graph)
        weight_ids = {id(weight) for weight in graph.weights}
        weights = {path: variables[path] for path in sorted(variables) if id(variables[path]) in weight_ids}
        # States of random generators are not weights: they are neither loaded nor reported.
        states = set(variables) - set(weights)
        sources = [_without(source, states) for source in sources]
        rules = self._params.rules()
        _check_patterns(rules, list(weights))
        _check_prefixes(sources, [rules.wanted_name(path) for path in weights])
        is_subset = self._params.mode is WarmStartMode.SUBSET
        transfer = plan_transfer(
            {path: tuple(v.shape) for path, v in weights.items()},
            sources,
            rules,
            TransferMode(self._params.mode.value),
            structure() if is_subset and structure is not None else {},
            self._params.blocks,
        )
        _report(transfer)
        is_own = overrides(type(self), WarmStarter, "apply_weights")
        _check(transfer, self._params.allow_partial, any_shape=is_own)
        resized = {row.target: weights[row.target] for row in transfer.with_outcome(Outcome.PARTLY_LOADED)}
        arrays = transfer.arrays(variable_arrays(resized))
        if is_own:
            self.apply_weights(graph, _all_weights(graph, weights, {**arrays, **_of_other_shape(transfer)}))
            return
        for path, array in arrays.items():
            weights[path].assign(array)

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

    def _trimmed(self, source: Source) -> Source:
        if not overrides(type(self), WarmStarter, "_trim"):
            return source
        names = [*source.arrays, *source.aliases]
        found = dict(zip(names, self._trim(names), strict=True))
        arrays = {found[name]: array for name, array in source.arrays.items()}
        if len(arrays) < len(source.arrays):
            raise ValueError(f"{type(self).__name__}._trim gives several weights of {source.description} one name")
        aliases = {found[alias]: found[name] for alias, name in source.aliases.items()}
        return replace(source, arrays=arrays, aliases=aliases)


def _all_weights(
    graph: GenericGraphBase[Any], weights: Mapping[str, keras.Variable], arrays: Mapping[str, np.ndarray]
) -> list[np.ndarray]:
    """Return the new value of each weight of a graph, or the one that it has."""
    paths = {id(weight): path for path, weight in weights.items()}
    current = variable_arrays(weights)
    return [arrays.get(paths[id(weight)], current[paths[id(weight)]]) for weight in graph.weights]


def _of_other_shape(transfer: Transfer) -> dict[str, np.ndarray]:
    """Return the arrays that are found by name in another shape, by target path."""
    rows = transfer.with_outcome(Outcome.SHAPE_DIFFERS)
    return {row.target: transfer.array(row.found) for row in rows if row.found is not None}


def _without(source: Source, names: set[str]) -> Source:
    return replace(
        source,
        arrays={name: array for name, array in source.arrays.items() if name not in names},
        aliases={alias: name for alias, name in source.aliases.items() if name not in names},
    )


def _check_patterns(rules: NameRules, paths: list[str]) -> None:
    for name, pattern in (("include", rules.include), ("exclude", rules.exclude)):
        if pattern is not None:
            matching_paths(pattern, name, "weight", paths)


def _check_prefixes(sources: list[Source], names: list[str]) -> None:
    for source in sources:
        if source.prefix:
            matching_paths(re.escape(source.prefix), "prefixes", "weight", names)


def _report(transfer: Transfer) -> None:
    counts = {outcome: len(transfer.with_outcome(outcome)) for outcome in Outcome}
    in_part = counts[Outcome.PARTLY_LOADED]
    log.info(
        "warm start from %s: %d of %d weights loaded%s, %d skipped, %d left fresh",
        _descriptions(transfer),
        counts[Outcome.LOADED] + in_part,
        len(transfer.rows),
        f" ({in_part} of them in part)" if in_part else "",
        counts[Outcome.EXCLUDED] + counts[Outcome.SHAPE_DIFFERS],
        counts[Outcome.NOT_FOUND] + counts[Outcome.AMBIGUOUS],
    )
    for line in transfer_table(transfer):
        log.info("  %s", line)


def _check(transfer: Transfer, allow_partial: bool, any_shape: bool) -> None:
    usable = [Outcome.LOADED, Outcome.PARTLY_LOADED]
    if any_shape:
        usable.append(Outcome.SHAPE_DIFFERS)
    failed = (Outcome.NOT_FOUND, Outcome.SHAPE_DIFFERS, Outcome.AMBIGUOUS)
    missing = [row for row in transfer.with_outcome(*failed) if row.outcome not in usable]
    loaded = transfer.with_outcome(*usable)
    what = _descriptions(transfer)
    fields, blocks = [], ""
    if any(row.reason for row in missing):
        fields, blocks = ["blocks"], ", or give the sizes of joined inputs with {blocks} 'path=[3,5]'"
    if not loaded:
        found = sorted(name for source in transfer.sources for name in source.arrays)
        raise FieldAdvice(
            f"nothing in {what} matches the model: it holds {_some(found)}, "
            f"the model needs {_some([_difference(row) for row in missing])}; "
            "map names with {rename} 'old->new', or choose another {model}" + blocks,
            "rename",
            "model",
            *fields,
        )
    if missing and not allow_partial:
        shown = [_difference(row) for row in missing]
        raise FieldAdvice(
            f"{what} fits the model only in part: {len(loaded)} of {len(loaded) + len(missing)} weights match, not "
            f"{_some(shown)}; "
            "leave them fresh with {allow_partial} True, or map names with {rename} 'old->new'" + blocks,
            "allow_partial",
            "rename",
            *fields,
        )


def _difference(row: Row) -> str:
    """Describe a target that is not loaded, with the reason if there is one."""
    if row.candidates:
        return f"{row.target} (ambiguous: {_some(list(row.candidates))})"
    if row.reason:
        return f"{row.target} (ambiguous: {row.reason})"
    if row.found is not None:
        return f"{row.target} (shape {shape_text(row.found.shape)}, needed {shape_text(row.shape)})"
    return row.target


def _descriptions(transfer: Transfer) -> str:
    return ", ".join(source.description for source in transfer.sources)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
