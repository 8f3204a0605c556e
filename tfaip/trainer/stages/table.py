"""Table of the stages of a run, for the log and for people who check a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfaip.params.tree import ABSENT, Change, field_default, flag_of, get_path, is_hidden, is_node, node_fields
from tfaip.params.types import value_text
from tfaip.trainer.stages.overrides import differences
from tfaip.trainer.stages.planned import MAIN, PlannedStage, StageKind
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.text import shorten, shorten_text

_HEADER = ("stage", "epochs", "params that differ from the final ones")
_WEIGHTS = "weights at its beginning"
_MAX_ROWS = 60
_MAX_TEXT = 200


def plan_table(stages: Sequence[PlannedStage], weights: Mapping[str, str] | None = None) -> list[str]:
    """Return a line per stage, below a header: name, first and last epoch, and what differs from the final params.

    Args:
        stages: as `plan_stages` returns them; the last one has the final params.
        weights: the weights that stages begin with, in words, by name of the stage; None: they are not shown.
    """
    final = stages[-1].params
    rows: list[tuple[str, ...]] = [_HEADER]
    rows += [(stage.name, epochs_text(stage), _text(stage, final)) for stage in stages]
    if weights is not None:
        shown = [_WEIGHTS] + [weights.get(stage.name, "-") for stage in stages]
        rows = [(*row[:-1], text, row[-1]) for row, text in zip(rows, shown, strict=True)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    left_out = len(lines) - _MAX_ROWS
    if left_out > 0:
        half = _MAX_ROWS // 2
        lines = [*lines[:half], f"... {left_out} more stages", *lines[-half:]]
    return lines


def epochs_text(stage: PlannedStage) -> str:
    """Return the first and the last epoch of a stage: `3-5`, `3`, or `-` if it trains none."""
    if stage.kind is not StageKind.TRAIN:
        return "-"
    if stage.first_epoch == stage.last_epoch:
        return str(stage.first_epoch)
    return f"{stage.first_epoch}-{stage.last_epoch}"


def _text(stage: PlannedStage, final: Any) -> str:
    """Return in words what a stage does that the main one does not."""
    parts = []
    if stage.settings is not None:
        parts.append(stage.settings.describe())
    if stage.kind is StageKind.TRAIN and stage.name != MAIN:
        if not stage.rate_control:
            parts.append("rate held")
        if stage.transfer != TransferParams():
            parts.append(f"transfer {stage.transfer.mode.value}")
    if stage.params is not None and stage.kind is StageKind.TRAIN:
        parts += changed_params(final, stage.params)
    else:
        parts += [f"{flag}={text}" for flag, text in stage.overrides.items()]
    if stage.params is None:
        parts.append("known when it is reached")
    return shorten_text(", ".join(filter(None, parts)), _MAX_TEXT)


def changed_params(final: Any, params: Any) -> list[str]:
    """Return the params of a stage that differ from the final ones, as `flag=value`.

    Of a node of another class these are the class, and the values that are not its defaults.
    """
    texts, chosen = [], []
    root = type(params).flag_root
    for change in differences(final, params):
        if is_hidden(params, change.path):
            continue
        flag = flag_of(params, root, change.path).lstrip("-")
        if isinstance(change.new, type):
            chosen.append(change.path)
            texts.append(f"{flag}={change.new.__name__}")
        elif change.new is not ABSENT and not (_is_below(change.path, chosen) and _is_default(params, change)):
            texts.append(f"{flag}={_shown(change.new)}")
    return texts


def _is_below(path: str, chosen: Sequence[str]) -> bool:
    return any(path.startswith(f"{node}.") for node in chosen)


def _is_default(params: Any, change: Change) -> bool:
    """Return True if a value is the default of the class that has it."""
    parent, _, name = change.path.rpartition(".")
    node = get_path(params, parent)
    fields = node_fields(node) if is_node(node) else ()
    return any(field.name == name and field_default(field) == change.new for field in fields)


def _shown(value: Any) -> str:
    try:
        return shorten_text(value_text(value))
    except TypeError:  # nodes
        return shorten(value)
