"""Preview of the stages of a run: planned with results that are not known yet, and shown as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from tfaip.params.tree import ABSENT, Change, field_default, flag_of, get_path, is_hidden, is_node, node_fields
from tfaip.params.types import value_text
from tfaip.trainer.stages.overrides import differences
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import PlannedStage, StageKind, may_use_all_epochs, planned_stages
from tfaip.trainer.transfer.params import TransferParams
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

log = logger(__name__)

MAX_STAGES = 1000
_HEADER = ("stage", "epochs", "params that differ from the final ones")
_FOLLOWING = "..."
_MAX_ROWS = 60
_MAX_TEXT = 200


class StagePending(BaseException):
    """Raised where a program reads a result that is not known yet; no `except Exception` of a program catches it."""


def _pending(*args: Any) -> NoReturn:
    raise StagePending


class _Pending:
    """Result or history of stages that have not run: whatever is read of it raises `StagePending`."""

    __getattr__ = __getitem__ = __contains__ = __iter__ = __len__ = __bool__ = _pending
    __lt__ = __le__ = __gt__ = __ge__ = __int__ = __float__ = __setattr__ = _pending
    __eq__ = __str__ = __repr__ = __format__ = __fspath__ = __hash__ = _pending


PENDING = _Pending()


@dataclass(frozen=True)
class Preview:
    """Stages of a run as far as they are known before it begins.

    Args:
        stages: in order.
        is_complete: False: a program decides what follows when it is reached.
    """

    stages: Sequence[PlannedStage]
    is_complete: bool = True

    @property
    def has_stages(self) -> bool:
        """True if the run has, or may have, more than its main stage."""
        return not self.is_complete or len(self.stages) > 1


def preview_stages(params: Any, scenario: Any) -> Preview:
    """Return the stages of a run up to the first result that its program reads.

    Args:
        params: the trainer params.
        scenario: the scenario or its class.

    Raises:
        UsageError: if a stage cannot work; one line that names it.
    """
    stages: list[PlannedStage] = []
    program, is_open = planned_stages(params, scenario, PENDING), may_use_all_epochs(scenario)
    try:
        while len(stages) < MAX_STAGES:
            stages.append(program.send(PENDING if stages else None))
            if is_open and stages[-1].last_epoch >= params.epochs and stages[-1].name != MAIN:
                break
    except StopIteration:
        return Preview(stages)
    except StagePending:
        pass
    return Preview(stages, is_complete=False)


def plan_table(preview: Preview, final: Any) -> list[str]:
    """Return a line per stage, below a header: name, first and last epoch, and what differs from the final params."""
    rows = [_HEADER, *((stage.name, epochs_text(stage), stage_text(stage, final)) for stage in preview.stages)]
    if not preview.is_complete:
        rows.append((_FOLLOWING, "", "known when it is reached"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    left_out = len(lines) - _MAX_ROWS
    if left_out > 0:
        half = _MAX_ROWS // 2
        lines = [*lines[:half], f"... {left_out} more stages", *lines[-half:]]
    return lines


def log_plan(preview: Preview, final: Any) -> None:
    """Log the table of the stages."""
    log.info("stages:\n%s", "\n".join(plan_table(preview, final)))


def epochs_text(stage: PlannedStage) -> str:
    """Return the first and the last epoch of a stage: `3-5`, `3`, or `-` if it trains none."""
    if stage.kind is not StageKind.TRAIN:
        return "-"
    if stage.first_epoch == stage.last_epoch:
        return str(stage.first_epoch)
    return f"{stage.first_epoch}-{stage.last_epoch}"


def stage_text(stage: PlannedStage, final: Any) -> str:
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
