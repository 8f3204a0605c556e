"""The place of a training in its stages, as a checkpoint stores it, and the check of it when the run is resumed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tfaip.errors import TfaipError, UsageError
from tfaip.params.codec import encode
from tfaip.trainer.run.stagedirectories import StageDirectories
from tfaip.trainer.stages.planned import MAIN, PlannedStage, StageKind
from tfaip.util.text import shorten, shorten_text

STAGE = "stage"
STAGES = "stages"
# Stages that no plan has: those of later calls of `Trainer.fit`.
_FURTHER = re.compile(rf"{MAIN}\.\d+")
RECORD = "record"
"""Key of what `work_record` returns, in the file of a stage."""


def place_of(plan: Sequence[PlannedStage], name: str) -> dict[str, Any]:
    """Return the place of a training in its stages, in the form that a checkpoint stores.

    Args:
        plan: the stages of the run.
        name: of the stage that is trained.
    """
    index = index_of(plan, name)
    return {STAGE: name, STAGES: [record_of(stage) for stage in plan[: index + 1]]}


def find_place(plan: Sequence[PlannedStage], state: Mapping[str, Any]) -> int:
    """Return the index of the stage that a checkpoint belongs to; of a later call of `fit` that of `main`.

    Args:
        plan: the stages of the run as they are now.
        state: the state of the checkpoint.

    Raises:
        UsageError: if a stage that is done was changed, moved, added or removed.
    """
    name, records, epochs = state[STAGE], state[STAGES], state["epoch"]
    further = further_records(state)
    if further:
        records, name = records[: -len(further)], MAIN
    done = [record_of(stage) for stage in plan]
    for index, record in enumerate(records):
        is_running = index == len(records) - 1 and not further
        now = done[index] if index < len(done) else {}
        differing = [key for key in record if record[key] != now.get(key)]
        if is_running:
            # Its params may change as those of a run without stages may.
            differing = [key for key in differing if key in ("name", "kind", "first_epoch")]
            if not differing and now["kind"] == "train" and now["last_epoch"] < epochs:
                differing = ["last_epoch"]
        if differing:
            raise UsageError(_message(record["name"], differing, now, is_running))
    return index_of(plan, name)


def further_records(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the records of the later calls of `Trainer.fit` up to the one that a checkpoint belongs to."""
    return [record for record in state[STAGES] if _FURTHER.fullmatch(record["name"])]


def work_record(plan: Sequence[PlannedStage], name: str) -> dict[str, Any]:
    """Return what must not change in a stage that is done: the stage and its place."""
    index = index_of(plan, name)
    return {"number": index, **record_of(plan[index])}


def check_work(
    plan: Sequence[PlannedStage],
    index: int,
    epochs: int,
    directories: StageDirectories,
    repeated: str | None = None,
) -> None:
    """Raise if a stage was changed that is done, and that a resumed training leaves as it is.

    These are the stage of the checkpoint, if all its epochs are trained, and those without training behind it: it was
    written before they began.

    Args:
        plan: the stages of the run as they are now.
        index: of the stage that the checkpoint belongs to.
        epochs: completed epochs of the checkpoint.
        directories: of the stages, with their records.
        repeated: the stage from which on all are run again.

    Raises:
        UsageError: if one was changed.
    """
    last = len(plan) if repeated is None else index_of(plan, repeated)
    for stage in plan[index:last]:
        if stage.kind is StageKind.TRAIN and (stage is not plan[index] or epochs < stage.last_epoch):
            return
        if not directories.is_done(stage.name):
            continue
        record, now = _stored_record(directories, stage.name), work_record(plan, stage.name)
        if record != now:
            differing = [key for key in now if record.get(key) != now[key]]
            raise UsageError(_message(stage.name, differing, {} if "number" in differing else now, is_running=False))


def _stored_record(directories: StageDirectories, name: str) -> Mapping[str, Any]:
    """Return the record of a stage that is done."""
    record = directories.facts(name).get(RECORD)
    if not isinstance(record, dict):
        raise UsageError(f"the record of stage {shorten(name)} is {shorten(record)}: it is damaged")
    return record


def index_of(plan: Sequence[PlannedStage], name: str) -> int:
    """Return the index of a stage.

    Raises:
        UsageError: if there is none of this name.
    """
    names = [stage.name for stage in plan]
    if name not in names:
        raise UsageError(f"there is no stage {shorten(name)}; the stages are {', '.join(names)}")
    return names.index(name)


def require_place(state: Mapping[str, Any]) -> None:
    """Raise unless the place in the state of a checkpoint has its form.

    Raises:
        TfaipError: if it is missing, or has another form.
    """
    name, records = state.get(STAGE), state.get(STAGES)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        records = []
    names = [record.get("name") for record in records]
    are_texts = all(isinstance(known, str) for known in (name, *names))
    are_numbers = all(type(record.get("first_epoch")) is int for record in records)
    if not are_texts or not are_numbers or not names or names[-1] != name:
        raise TfaipError(f"the state of the checkpoint has {shorten(name)} as {STAGE}: it is damaged")


def record_of(stage: PlannedStage) -> dict[str, Any]:
    """Return what must not change in a stage that is done, JSON-able."""
    return {
        "name": stage.name,
        "kind": stage.kind.value,
        "first_epoch": stage.first_epoch,
        "last_epoch": stage.last_epoch,
        "rate_control": stage.rate_control,
        "overrides": dict(stage.overrides),
        "transfer": encode(stage.transfer),
        "settings": None if stage.settings is None else encode(stage.settings),
    }


def _message(name: str, differing: Sequence[str], now: Mapping[str, Any], is_running: bool) -> str:
    work = "is running" if is_running else "is done"
    changed = "another stage has its place"
    if now.get("name") == name:
        changed = f"its {shorten_text(', '.join(differing))} changed"
    return (
        f"the stage {shorten(name)} {work}, but {changed}: only stages that come later can be changed; repeat from a "
        "stage with --from_stage"
    )
