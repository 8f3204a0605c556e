"""Plan of a transfer: the source of each target weight, or the reason why it keeps its own values."""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from tfaip.errors import UsageError
from tfaip.model.structure.axis import (
    AmbiguousAxis,
    Axes,
    Axis,
    Dimension,
    Joined,
    Positions,
    Structure,
    Unknown,
    WeightStructure,
    combined,
    matching_positions,
    renamed_axis,
    resized_structure,
    sizes_text,
)
from tfaip.model.weightrules import TransferMode, WeightRules, matching_paths, path_matches
from tfaip.model.weightsource import Source, match_tails
from tfaip.params.fields import FieldAdvice
from tfaip.util.logging import logger
from tfaip.util.terminal import table_lines
from tfaip.util.text import shorten, shorten_text

Shape = tuple[int, ...]
Arrays = Mapping[str, np.ndarray]

AVERAGE = "average"
# Kinds of slots that mean the same with every update rule.
_OF_EVERY_RULE = (AVERAGE, "gradient_accumulator")
_UNNAMED = "part_"
_NO_STRUCTURE = WeightStructure((), inputs=None)

log = logger(__name__)


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
    """

    place: int
    name: str
    shape: Shape


@dataclass(frozen=True)
class Fit:
    """Entries of a weight that come from its source.

    Args:
        old: axes of the source.
        new: axes of the weight.
    """

    old: Axes
    new: Axes

    def positions(self) -> list[Positions]:
        """Return the positions that belong together, for each axis; raise AmbiguousAxis if they are not known."""
        return [matching_positions(old, new) for old, new in zip(self.old, self.new, strict=True)]

    @property
    def reason(self) -> str:
        """Reason why it may be wrong to take an axis as one block; empty: there is none."""
        pairs = [(old, new) for old, new in zip(self.old, self.new, strict=True) if old.size != new.size]
        reasons = [axis.reason for pair in pairs for axis in reversed(pair) if isinstance(axis, Unknown)]
        return f"as one block, since {reasons[0]}: if its inputs were joined, give blocks" if reasons else ""

    def is_whole(self) -> bool:
        """Return True if source and weight are equal, entry by entry."""
        sizes = [axis.size for axis in self.new]
        if [axis.size for axis in self.old] != sizes:
            return False
        pairs = zip(sizes, self.positions(), strict=True)
        return all(np.array_equal(side, np.arange(size)) for size, pair in pairs for side in pair)

    def copy(self, source: np.ndarray, initial: np.ndarray) -> np.ndarray:
        """Return the values of the weight; entries that the source lacks keep those of `initial`."""
        positions = self.positions()
        values = np.array(initial)
        if not positions:
            return np.array(source, dtype=values.dtype)
        values[np.ix_(*(new for _, new in positions))] = source[np.ix_(*(old for old, _ in positions))]
        return values

    def __str__(self) -> str:
        texts = [", ".join(sizes_text(axis) for axis in axes) for axes in (self.old, self.new)]
        return " -> ".join(f"[{text}]" for text in texts)


@dataclass(frozen=True)
class Row:
    """Target weight and the decision on it.

    Args:
        target: its path.
        outcome: the decision.
        found: the array that it takes, or whose shape differs.
        fit: the entries that it takes, if it is loaded in part.
        reason: why its source or its entries are ambiguous, or may be wrong; empty: they are not.
    """

    target: str
    shape: Shape
    outcome: Outcome
    found: Found | None = None
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

    def arrays(self, initial: Arrays | None = None) -> dict[str, np.ndarray]:
        """Return the values of the weights that are loaded by path; `initial` has those that are loaded in part."""
        arrays: dict[str, np.ndarray] = {}
        for row in self.rows:
            if row.found is not None and row.is_loaded:
                array = self.array(row.found)
                arrays[row.target] = array if row.fit is None else row.fit.copy(array, (initial or {})[row.target])
        return arrays

    def array(self, found: Found) -> np.ndarray:
        """Return an array of a source."""
        return self.sources[found.place].arrays[found.name]

    def with_outcome(self, *outcomes: Outcome) -> list[Row]:
        """Return the rows with one of these outcomes."""
        return [row for row in self.rows if row.outcome in outcomes]


def plan_transfer(
    targets: Mapping[str, Shape],
    sources: Sequence[Source],
    rules: WeightRules,
    mode: str = TransferMode.EXACT,
    structure: Structure | None = None,
) -> Transfer:
    """Find values for target weights.

    A target takes the first array that has its name and its shape; sources are searched in order, names before aliases.
    A target that no source names is matched by the last parts of its name, in sources with `by_tail`.

    Args:
        targets: shapes of the target weights by path.
        sources: origins of values, in order of preference.
        rules: selection and names of the weights, and sizes of joined inputs.
        mode: subset: a target also takes entries of an array in another shape.
        structure: of the target weights, for `subset`; without it, a weight of another shape is one block.

    Raises:
        UsageError: if `rename` gives two arrays of a source the same name.
        FieldAdvice: if a pattern matches no weight, or `blocks` has sizes that fit none, or another mode.
    """
    if rules.blocks and mode != TransferMode.SUBSET:
        raise FieldAdvice("{blocks} has no effect without {mode} subset", "blocks", "mode")
    if mode == TransferMode.NONE:
        return Transfer(sources, [Row(path, shape, Outcome.NOT_WANTED) for path, shape in targets.items()])
    for name, pattern in (("include", rules.include), ("exclude", rules.exclude)):
        if pattern is not None:
            matching_paths(pattern, name, "weight", targets)
    found_names = [_renamed(source, rules) for source in sources]
    rows = [_row(path, shape, sources, found_names, rules) for path, shape in targets.items()]
    for place, source in enumerate(sources):
        if source.by_tail:
            rows = _found_by_tail(rows, place, source, found_names[place], rules)
    if mode == TransferMode.SUBSET:
        _check_blocks(rows, rules, structure or {})
        rows = _fitted(rows, sources, rules, structure or {})
    return Transfer(sources, rows)


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


def _row(
    path: str, shape: Shape, sources: Sequence[Source], found_names: Sequence[Mapping[str, str]], rules: WeightRules
) -> Row:
    if not rules.selects(path):
        return Row(path, shape, Outcome.EXCLUDED)
    wanted, candidates = rules.wanted_name(path), []
    for place, (source, names) in enumerate(zip(sources, found_names, strict=True)):
        if wanted in names:
            candidates.append(Found(place, names[wanted], source.arrays[names[wanted]].shape))
    for found in candidates:
        if found.shape == shape:
            return Row(path, shape, Outcome.LOADED, found)
    return Row(path, shape, Outcome.SHAPE_DIFFERS, candidates[0]) if candidates else Row(path, shape, Outcome.NOT_FOUND)


def _found_by_tail(
    rows: Sequence[Row], place: int, source: Source, names: Mapping[str, str], rules: WeightRules
) -> list[Row]:
    """Return the rows, with arrays of one source matched by tail for targets that were not found by name."""
    missing = [rules.wanted_name(row.target) for row in rows if row.outcome is Outcome.NOT_FOUND]
    used = {row.found.name for row in rows if row.found is not None and row.found.place == place}
    matches = match_tails(missing, names, used)
    result = []
    for row in rows:
        match = matches.get(rules.wanted_name(row.target)) if row.outcome is Outcome.NOT_FOUND else None
        if match is not None and match.name is None:
            row = replace(row, outcome=Outcome.AMBIGUOUS, reason=" or ".join(match.candidates))
        elif match is not None and match.name is not None:
            shape = source.arrays[match.name].shape
            outcome = Outcome.LOADED if shape == row.shape else Outcome.SHAPE_DIFFERS
            row = replace(row, outcome=outcome, found=Found(place, match.name, shape))
        result.append(row)
    return result


def _fitted(rows: Sequence[Row], sources: Sequence[Source], rules: WeightRules, structure: Structure) -> list[Row]:
    """Return the rows with entries of arrays for the targets whose shape, or whose parts, differ."""
    structures: dict[str, WeightStructure | None] = {}
    for place, source in enumerate(sources):
        found = {row.target: row.found for row in rows if row.found is not None and row.found.place == place}
        followed = resized_structure(structure, {path: array.shape for path, array in found.items()})
        for path, array in found.items():
            structures[path] = source.structure.get(array.name) or followed.get(path)
    result = []
    for row in rows:
        if row.found is not None and len(row.found.shape) == len(row.shape):
            try:
                fit = _fit(row, row.found.shape, structures[row.target], rules, structure)
                if not fit.is_whole():
                    row = replace(row, outcome=Outcome.PARTLY_LOADED, fit=fit, reason=fit.reason)
            except AmbiguousAxis as error:
                if row.outcome is not Outcome.LOADED:  # of an equal shape nothing speaks against the same entries
                    row = replace(row, outcome=Outcome.AMBIGUOUS, reason=str(error))
        result.append(row)
    return result


def _fit(
    row: Row, source_shape: Shape, source: WeightStructure | None, rules: WeightRules, structure: Structure
) -> Fit:
    """Compare a weight with its source, which has as many axes; raise AmbiguousAxis if their entries may be others."""
    target = structure.get(row.target, _NO_STRUCTURE)
    if tuple(axis.size for axis in target.axes) != row.shape:
        target = WeightStructure(_unknown(row.shape))
    old, new = list(_unknown(source_shape)), list(target.axes)
    if source is not None and tuple(axis.size for axis in source.axes) == source_shape:
        old = [renamed_axis(axis, rules.renamed_source) for axis in source.axes]
    sizes = next((sizes for p, sizes in rules.blocks.items() if path_matches(re.compile(p), row.target)), ())
    given = _given_axes(target, source_shape, row.shape, sizes)
    for axis in range(len(new)):
        if axis in given:
            old[axis], new[axis] = given[axis]
        elif given and (isinstance(old[axis], Unknown) or isinstance(new[axis], Unknown)):
            # Who knows the inputs of a weight knows that nothing else in it is joined.
            old[axis], new[axis] = Dimension("", source_shape[axis]), Dimension("", row.shape[axis])
    fit = Fit(tuple(old), tuple(new))
    fit.positions()
    return fit


def _check_blocks(rows: Sequence[Row], rules: WeightRules, structure: Structure) -> None:
    """Raise unless each pattern of `blocks` matches a target whose inputs, old and new, its sizes add up to."""
    known = {row.target: row for row in rows}
    for pattern, sizes in rules.blocks.items():
        matched = [known[path] for path in matching_paths(pattern, "blocks", "weight", known)]
        pairs = [(row, row.found.shape) for row in matched if row.found is not None]
        if not any(_given_axes(structure.get(r.target, _NO_STRUCTURE), shape, r.shape, sizes) for r, shape in pairs):
            listed = ", ".join(f"{row.target} ({shape_text(shape)} -> {shape_text(row.shape)})" for row, shape in pairs)
            raise FieldAdvice(
                f"{{blocks}} {shorten(pattern)} gives {shorten(list(sizes))}, the old sizes and then the new ones, but "
                f"no weight has such inputs: {shorten_text(listed, 120)}",
                "blocks",
            )


def _unknown(shape: Shape) -> Axes:
    return tuple(Unknown(size, "its inputs are not known") for size in shape)


def _given_axes(target: WeightStructure, old: Shape, new: Shape, sizes: Sequence[int]) -> dict[int, tuple[Axis, Axis]]:
    """Return the old and the new axis of the inputs of a weight whose sizes are given, by number."""
    half = len(sizes) // 2
    pair = (sum(sizes[:half]), sum(sizes[half:]))
    axes = [axis for axis, known in enumerate(zip(old, new, strict=False)) if known == pair]
    axes = axes[:1] if target.inputs is None else [axis for axis in axes if axis in target.inputs]
    return {axis: (_named(sizes[:half]), _named(sizes[half:])) for axis in axes}


def _named(sizes: Sequence[int]) -> Axis:
    return combined(Joined, [Dimension(f"block {i}", size) for i, size in enumerate(sizes)])


# Report


def transfer_table(transfer: Transfer) -> list[str]:
    """Return a line per target weight, below a header: path, shape, outcome."""
    cells = [(row.target, shape_text(row.shape), _outcome_text(row, transfer)) for row in transfer.rows]
    return table_lines([("weight", "shape", ""), *cells], left=3)


def log_transfer(transfer: Transfer, title: str, only_if_changed: bool = False) -> None:
    """Log the counts and the table; a weight that may have been taken over in a wrong way is a warning.

    Args:
        title: begins the line of the counts.
        only_if_changed: leave out the table if all weights are copied as they are.
    """
    whole, partly = len(transfer.with_outcome(Outcome.LOADED)), len(transfer.with_outcome(Outcome.PARTLY_LOADED))
    fresh = len(transfer.rows) - whole - partly
    log.info("%s: %d copied, %d resized, %d fresh", title, whole, partly, fresh)
    if only_if_changed and not partly and not fresh:
        return
    head, *lines = transfer_table(transfer)
    log.info("  %s", head)
    for row, line in zip(transfer.rows, lines, strict=True):
        log.log(logging.WARNING if row.is_loaded and row.reason else logging.INFO, "  %s", line)


def shape_text(shape: Shape) -> str:
    """Return a shape as text, e.g. `3x4`; `()` for a scalar."""
    return "x".join(map(str, shape)) or "()"


def _outcome_text(row: Row, transfer: Transfer) -> str:
    found, text = row.found, str(row.outcome) if row.fit is None else f"{row.outcome} {row.fit}"
    if found is None:
        return f"{text} ({row.reason})" if row.reason else text
    if row.reason or row.outcome is Outcome.SHAPE_DIFFERS:
        text += f" ({row.reason and f'{row.reason}; '}source: {shape_text(found.shape)})"
    if len(transfer.sources) > 1:
        return f"{text} from {transfer.sources[found.place].description}: {found.name}"
    return text if found.name == row.target else f"{text} from {found.name}"


# The optimizer


def slot_arrays(
    transfer: Transfer, old: Arrays, new: Arrays, weights: Arrays, same_rule: bool = True
) -> dict[str, np.ndarray]:
    """Return a value for each variable of an optimizer after a transfer.

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
    """
    rows = {row.target: row for row in transfer.rows}
    shapes = [{name: array.shape for name, array in side.items() if "/" in name} for side in (old, new)]
    keeps_unnamed = same_rule and shapes[0] == shapes[1]
    result = {}
    for name, initial in new.items():
        kind, _, path = name.partition("/")
        if path and not kind.startswith(_UNNAMED):
            followed = old if same_rule or kind in _OF_EVERY_RULE else {}
            result[name] = _slot(kind, rows.get(path), followed, weights[path] if kind == AVERAGE else initial)
        elif name in old and old[name].shape == initial.shape and (keeps_unnamed or not path):
            result[name] = old[name]
        else:
            result[name] = initial
    return result


def _slot(kind: str, row: Row | None, old: Arrays, initial: np.ndarray) -> np.ndarray:
    if row is None or row.found is None or not row.is_loaded:
        return initial
    source = old.get(f"{kind}/{row.found.name}")
    if row.found.place != 0 or source is None or source.shape != row.found.shape:
        return initial
    return source if row.fit is None else row.fit.copy(source, initial)
