"""Plan of a transfer: the source of each target weight, or the reason why it keeps its own values."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tfaip.errors import UsageError
from tfaip.model.structure.axis import AmbiguousAxis, Structure, WeightStructure, resized_structure
from tfaip.model.weightsource import Match, Source, match_tails
from tfaip.trainer.transfer.fitting import Fit, Fitting, Shape
from tfaip.trainer.transfer.params import TransferMode, WeightRules
from tfaip.util.logging import logger
from tfaip.util.terminal import table_lines
from tfaip.util.text import shorten

if TYPE_CHECKING:
    import numpy as np


log = logger(__name__)

_UNUSED_SHOWN = 5


class Outcome(StrEnum):
    """Decision on a target weight."""

    LOADED = "loaded"
    PARTLY_LOADED = "loaded in part"
    NOT_WANTED = "left fresh: mode none"
    EXCLUDED = "skipped: excluded"
    SHAPE_DIFFERS = "skipped: shape differs"
    NOT_FOUND = "left fresh: not in the source"
    AMBIGUOUS = "left fresh: ambiguous"


class Found(NamedTuple):
    """Array of a source that has the name of a target weight.

    Args:
        place: index of the source.
        name: its name there.
        shape: its shape.
    """

    place: int
    name: str
    shape: Shape


@dataclass(frozen=True)
class Row:
    """Target weight and the decision on it.

    Args:
        target: its path.
        shape: its shape.
        outcome: the decision.
        found: the array that it takes, or whose shape differs.
        candidates: the paths that it may belong to, or that may belong to it, if that is ambiguous.
        fit: the entries that it takes, if it is loaded in part.
        reason: why its entries are ambiguous, or may be wrong; empty: they are not.
    """

    target: str
    shape: Shape
    outcome: Outcome
    found: Found | None = None
    candidates: tuple[str, ...] = ()
    fit: Fit | None = None
    reason: str = ""

    @property
    def is_loaded(self) -> bool:
        """True if the weight is loaded, at least in part."""
        return self.outcome in (Outcome.LOADED, Outcome.PARTLY_LOADED)


@dataclass(frozen=True)
class Transfer:
    """Planned transfer.

    Args:
        sources: origins of the values.
        rows: one per target weight, in the order of the target.
    """

    sources: Sequence[Source]
    rows: Sequence[Row]

    def arrays(self, initial: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """Return the values of the weights that are loaded, at least in part, by target path.

        Args:
            initial: values of the target weights, for entries that their sources lack; needed for weights that are
                loaded in part.
        """
        arrays: dict[str, np.ndarray] = {}
        for row in self.rows:
            if row.found is None or not row.is_loaded:
                continue
            array = self.array(row.found)
            if row.fit is not None:
                array = row.fit.copy(array, (initial or {})[row.target])
            arrays[row.target] = array
        return arrays

    def array(self, found: Found) -> np.ndarray:
        """Return an array of a source."""
        return self.sources[found.place].arrays[found.name]

    def with_outcome(self, *outcomes: Outcome) -> list[Row]:
        """Return the rows with one of these outcomes."""
        return [row for row in self.rows if row.outcome in outcomes]

    def unused(self, place: int) -> list[str]:
        """Return the names of the arrays of a source that no row names, sorted."""
        used = {row.found.name for row in self.rows if row.found is not None and row.found.place == place}
        return sorted(set(self.sources[place].arrays) - used)


def plan_transfer(
    targets: Mapping[str, Shape],
    sources: Sequence[Source],
    rules: WeightRules,
    mode: str = TransferMode.EXACT,
    structure: Structure | None = None,
) -> Transfer:
    """Find values for target weights.

    A target takes the first array that has its name and its shape; sources are searched in order, names
    before aliases. A target that no source names is matched by the last parts of its name, in sources
    with `by_tail`.

    Args:
        targets: shapes of the target weights by path.
        sources: origins of values, in order of preference.
        rules: selection and names of the weights, and sizes of joined inputs.
        mode: subset: a target also takes entries of an array in another shape.
        structure: of the target weights, for `subset`; without it, a weight of another shape is one block.

    Raises:
        UsageError: if `rename` gives two arrays of a source the same name.
        FieldAdvice: if `blocks` has a pattern that matches no weight, or sizes that fit none.
    """
    if mode == TransferMode.NONE:
        return Transfer(sources, [Row(path, shape, Outcome.NOT_WANTED) for path, shape in targets.items()])
    found_names = [_renamed(source, rules) for source in sources]
    rows = [_row(path, shape, sources, found_names, rules) for path, shape in targets.items()]
    for place, source in enumerate(sources):
        if source.by_tail:
            rows = _found_by_tail(rows, place, source, found_names[place], rules)
    if mode == TransferMode.SUBSET:
        fitting = Fitting(structure or {}, rules.blocks, rules.renamed_source)
        fitting.check_blocks({row.target: None if row.found is None else row.found.shape for row in rows})
        rows = _fitted(rows, sources, fitting)
    return Transfer(sources, rows)


def _fitted(rows: Sequence[Row], sources: Sequence[Source], fitting: Fitting) -> list[Row]:
    """Return the rows with entries of arrays for the targets whose shape, or whose parts, differ."""
    structures: dict[str, WeightStructure | None] = {}
    for place, source in enumerate(sources):
        found = {row.target: row.found for row in rows if row.found is not None and row.found.place == place}
        followed = resized_structure(fitting.structure, {path: array.shape for path, array in found.items()})
        for path, array in found.items():
            structures[path] = source.structure.get(array.name) or followed.get(path)
    result = []
    for row in rows:
        if row.found is not None and len(row.found.shape) == len(row.shape):
            row = _fitted_row(row, row.found.shape, structures[row.target], fitting)
        result.append(row)
    return result


def _fitted_row(row: Row, source_shape: Shape, source: WeightStructure | None, fitting: Fitting) -> Row:
    try:
        fit = fitting.fit(row.target, row.shape, source_shape, source)
    except AmbiguousAxis as error:
        # Of an equal shape nothing speaks against the same entries.
        if row.outcome is Outcome.LOADED:
            return row
        return replace(row, outcome=Outcome.AMBIGUOUS, reason=str(error))
    if fit.is_whole():
        return row
    return replace(row, outcome=Outcome.PARTLY_LOADED, fit=fit, reason=fit.reason)


def _found_by_tail(
    rows: Sequence[Row], place: int, source: Source, names: Mapping[str, str], rules: WeightRules
) -> list[Row]:
    """Return the rows, with arrays of one source matched by tail for targets that were not found by name."""
    missing = {rules.wanted_name(row.target): row for row in rows if row.outcome is Outcome.NOT_FOUND}
    if source.prefix:
        missing = {name: row for name, row in missing.items() if name.startswith(f"{source.prefix}/")}
    used = {row.found.name for row in rows if row.found is not None and row.found.place == place}
    matches = match_tails(list(missing), names, used)
    result = []
    for row in rows:
        match = matches.get(rules.wanted_name(row.target)) if row.outcome is Outcome.NOT_FOUND else None
        result.append(row if match is None else _row_of_match(row, place, source, match))
    return result


def _row_of_match(row: Row, place: int, source: Source, match: Match) -> Row:
    if match.name is None:
        return replace(row, outcome=Outcome.AMBIGUOUS, candidates=match.candidates)
    shape = source.arrays[match.name].shape
    outcome = Outcome.LOADED if shape == row.shape else Outcome.SHAPE_DIFFERS
    return replace(row, outcome=outcome, found=Found(place, match.name, shape))


def _row(
    path: str, shape: Shape, sources: Sequence[Source], found_names: Sequence[Mapping[str, str]], rules: WeightRules
) -> Row:
    if not rules.selects(path):
        return Row(path, shape, Outcome.EXCLUDED)
    wanted = rules.wanted_name(path)
    candidates = []
    for place, (source, names) in enumerate(zip(sources, found_names, strict=True)):
        if wanted in names:
            candidates.append(Found(place, names[wanted], source.arrays[names[wanted]].shape))
    if not candidates:
        return Row(path, shape, Outcome.NOT_FOUND)
    for found in candidates:
        if found.shape == shape:
            return Row(path, shape, Outcome.LOADED, found)
    return Row(path, shape, Outcome.SHAPE_DIFFERS, candidates[0])


def _renamed(source: Source, rules: WeightRules) -> dict[str, str]:
    """Map all names under which arrays of a source are found to their own names."""
    found: dict[str, str] = {}
    for name in source.arrays:
        new = rules.renamed_source(name)
        if new in found:
            raise UsageError(
                f"{source.description}: after renaming, both {shorten(found[new])} and {shorten(name)} are called "
                f"{shorten(new)}: change the substitutions"
            )
        found[new] = name
    for alias, name in source.aliases.items():
        found.setdefault(rules.renamed_source(alias), name)
    return found


def transfer_table(transfer: Transfer) -> list[str]:
    """Return a line per target weight (path, shape, outcome), and one per source with its unused arrays."""
    cells = [("weight", "shape", "")] + [
        (row.target, shape_text(row.shape), _outcome_text(row, transfer)) for row in transfer.rows
    ]
    return table_lines(cells, left=3) + _unused_lines(transfer)


def log_table(transfer: Transfer) -> None:
    """Log the table; a weight that may have been taken over in a wrong way is a warning."""
    head, *lines = transfer_table(transfer)
    log.info("  %s", head)
    for place, line in enumerate(lines):
        is_doubtful = place < len(transfer.rows) and transfer.rows[place].is_loaded and transfer.rows[place].reason
        log.log(logging.WARNING if is_doubtful else logging.INFO, "  %s", line)


def counts_text(transfer: Transfer) -> str:
    """Return how many weights are copied, resized and fresh, in words."""
    whole, partly = len(transfer.with_outcome(Outcome.LOADED)), len(transfer.with_outcome(Outcome.PARTLY_LOADED))
    return f"{whole} copied, {partly} resized, {len(transfer.rows) - whole - partly} fresh"


def is_whole(transfer: Transfer) -> bool:
    """Return True if all weights are copied as they are."""
    return len(transfer.with_outcome(Outcome.LOADED)) == len(transfer.rows)


def shape_text(shape: Shape) -> str:
    """Return a shape as text, e.g. `3x4`; `()` for a scalar."""
    return "x".join(map(str, shape)) or "()"


def _outcome_text(row: Row, transfer: Transfer) -> str:
    if row.candidates:
        return f"{row.outcome} ({' or '.join(row.candidates)})"
    text = str(row.outcome)
    if row.fit is not None:
        text += f" {row.fit}"
    found = row.found
    if found is None:
        return text
    if row.reason:
        text += f" ({row.reason}; source: {shape_text(found.shape)})"
    if row.outcome is Outcome.SHAPE_DIFFERS:
        text += f" (source: {shape_text(found.shape)})"
    if len(transfer.sources) > 1:
        return f"{text} from {transfer.sources[found.place].description}: {found.name}"
    return text if found.name == row.target else f"{text} from {found.name}"


def _unused_lines(transfer: Transfer) -> list[str]:
    lines = []
    for place, source in enumerate(transfer.sources):
        names = transfer.unused(place)
        if names:
            more = f" and {len(names) - _UNUSED_SHOWN} more" if len(names) > _UNUSED_SHOWN else ""
            lines.append(f"not used of {source.description}: {', '.join(names[:_UNUSED_SHOWN])}{more}")
    return lines


AVERAGE = "average"
_UNNAMED = "part_"
# Kinds of slots that mean the same with every update rule.
_OF_EVERY_RULE = (AVERAGE, "gradient_accumulator")

Arrays = Mapping[str, "np.ndarray"]


def slot_arrays(
    transfer: Transfer, old: Arrays, new: Arrays, weights: Arrays, same_rule: bool = True
) -> dict[str, np.ndarray]:
    """Return the values of the variables of an optimizer after a transfer.

    A slot of a weight that was loaded is that of its source; of a weight that was loaded in part, the same entries are
    copied, and all others keep the initial value of the slot (0 for most kinds). A slot of any other weight keeps its
    initial value. Averages of entries without a source are the new values of the weight. Counters, and whatever else
    belongs to no weight, are taken over.

    Args:
        transfer: of the weights, of which only the first source has an optimizer.
        old: variables of the optimizer before, by the names of `TrainingOptimizer.named_variables`.
        new: initial values of the variables of the new optimizer, likewise.
        weights: values of the target weights after the transfer, by path.
        same_rule: True if the update rule is that of before. If not, only averages, accumulated gradients and
            counters are taken over: the moments of one rule mean nothing to another one.

    Returns:
        A value for each variable in `new`.
    """
    rows = {row.target: row for row in transfer.rows}
    keeps_unnamed = same_rule and _slot_shapes(old) == _slot_shapes(new)
    result = {}
    for name, initial in new.items():
        kind, _, path = name.partition("/")
        if path and not kind.startswith(_UNNAMED):
            followed = {} if not same_rule and kind not in _OF_EVERY_RULE else old
            result[name] = _slot(kind, path, rows.get(path), followed, initial, weights)
        elif name in old and old[name].shape == initial.shape and (keeps_unnamed or not path):
            result[name] = old[name]
        else:
            result[name] = initial
    return result


def _slot(kind: str, path: str, row: Row | None, old: Arrays, initial: np.ndarray, weights: Arrays) -> np.ndarray:
    if kind == AVERAGE:
        initial = weights[path]
    if row is None or row.found is None or not row.is_loaded:
        return initial
    source = old.get(f"{kind}/{row.found.name}")
    if row.found.place != 0 or source is None or source.shape != row.found.shape:
        return initial
    return source if row.fit is None else row.fit.copy(source, initial)


def _slot_shapes(variables: Arrays) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the slots, named or not, without the counters."""
    return {name: array.shape for name, array in variables.items() if "/" in name}
