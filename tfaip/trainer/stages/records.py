"""Records of stages: what must not change in one that is done, and the results that a program gets again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.backend import distributed
from tfaip.device.collectives import all_gather, broadcast
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.params.codec import encode
from tfaip.params.stored import flat_params
from tfaip.trainer.history import History
from tfaip.trainer.run.directory import StageDirectories
from tfaip.trainer.run.names import STAGES_DIR
from tfaip.trainer.stages.params import MAIN, TrainStage
from tfaip.trainer.stages.program import PlannedStage, StageProgram, StageResult
from tfaip.util.text import shorten, shorten_text

RUNNING = "stage"
"""Key of the record of the running stage in the state of a checkpoint; None: the first stage has not begun."""
_ROOT = "{output_dir}"
_ADVICE = "change it back, or repeat from a stage with --from_stage"
_PLACE = ("number", "name", "kind", "first_epoch")


def _relative(value: Any, root: Path | None) -> Any:
    """Return a JSON value in whose texts the directory of the run is `{output_dir}`."""
    text = json.dumps(value)
    if root is not None:
        # At the beginning of a text, or of a word in it.
        text = re.sub(rf"(?<![^\s'\"=]){re.escape(_json_text(root))}(?=[/\"])", lambda match: _ROOT, text)
    return json.loads(text)


def _json_text(root: Path) -> str:
    return json.dumps(str(root))[1:-1]


def _check_place(record: Mapping[str, Any], now: Mapping[str, Any], state: str) -> None:
    """Raise a `UsageError` if another stage has the place of one that is done or running."""
    if any(record.get(key) != now.get(key) for key in _PLACE):
        raise UsageError(
            f"the stage {shorten(record['name'])} is {state}, but now stage {now['name']} ({now['kind']}, from epoch "
            f"{now['first_epoch']}) has its place: {_ADVICE}"
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    old, new = flat_params(before), flat_params(now)
    keys = [key for key in dict.fromkeys([*old, *new]) if old.get(key) != new.get(key)]
    return [shorten_text(f"{key}: {shorten(old.get(key))} -> {shorten(new.get(key))}") for key in keys]


def numbered(directories: StageDirectories, name: str) -> tuple[int, str | None]:
    """Return the number of a stage that has begun, and the last one before it that has trained."""
    records = directories.records()
    before = None
    for record in records:
        if record["name"] == name:
            return record["number"], before
        before = record["name"] if record["kind"] == TrainStage.kind else before
    names = [record["name"] for record in records]
    if not records and name == MAIN:
        return 0, None
    raise UsageError(f"no stage {shorten(name)} has begun; those that have are {', '.join(names) or MAIN}")


class StageSequence:
    """Stages of a run, one after the other; those that are done are answered from their records.

    Args:
        program: see `planned_stages`.
        history: what the program sees: it grows with every finished stage.
        devices: the processes, which all run the program; the chief reads and writes the records.
        directories: of the stages; None: the run writes nothing, or has no stages.
        is_resumed: answer the stages that are done.
        repeated: number of the stage from which on all are run again; None: those that are done stay.
    """

    def __init__(
        self,
        program: StageProgram,
        history: History,
        devices: Devices,
        directories: StageDirectories | None,
        is_resumed: bool = False,
        repeated: int | None = None,
    ) -> None:
        self._program = program
        self._history = history
        self._root = None if directories is None else directories.root
        self._devices, self._directories = devices, directories
        self._stored: dict[int, dict[str, Any]] = {}
        if directories is not None and is_resumed:
            records = broadcast(devices, directories.records() if devices.is_chief else [])
            self._stored = {record["number"]: record for record in records}
        self._forget(repeated)
        self._results: dict[str, StageResult] = {}
        self.stage: PlannedStage | None = None
        """The stage that is reached; None: all are done."""

    def directories(self) -> dict[str, Path]:
        """Return the directories of the finished stages by name."""
        return {name: Path(result.directory) for name, result in self._results.items() if result.directory}

    def record(self) -> dict[str, Any]:
        """Return what must not change in the stage that is reached, JSON-able; paths in the run are relative to it."""
        stage = self.reached
        settings = {} if stage.name == MAIN else encode(stage.settings)
        settings.pop("epochs", None)
        place = {name: getattr(stage, name) for name in ("number", "name", "first_epoch", "last_epoch")}
        return _relative({**settings, **place, "kind": stage.settings.kind}, self._root)

    @property
    def reached(self) -> PlannedStage:
        """The stage that is reached; there is one."""
        assert self.stage is not None  # noqa: S101 (the caller knows it)
        return self.stage

    def next(self, result: StageResult | None = None, trained: History | None = None) -> None:
        """Send the result of the stage into the program, and go to the stage that it yields."""
        if result is not None and trained is not None:
            self._results[result.name] = result
            for epoch in trained.epochs:
                if epoch <= result.last_epoch and epoch not in self._history:
                    self._history.record(epoch, trained[epoch])
        try:
            self.stage = self._program.send(result)
        except StopIteration:
            self.stage = None
        if self._devices.num_processes > 1:
            self._check_equal(None if self.stage is None else self.record())

    def _check_equal(self, record: Mapping[str, Any] | None) -> None:
        """Raise unless the programs of all processes have yielded the same stage."""
        found = all_gather(self._devices, json.dumps(record, sort_keys=True).encode())
        for number, text in enumerate(found):
            if text != found[0]:
                distributed.leave_together()
                shown = " and ".join(shorten_text(stage.decode(), 200) for stage in (found[0], text))
                raise UsageError(f"the stages of processes 0 and {number} differ: {shown}")

    def reach(self, state: Mapping[str, Any], trained: History) -> list[str]:
        """Go to the stage of a checkpoint; return its changes, in words."""
        running = state[RUNNING]
        self.next()
        while running is not None and self.stage is not None and self.stage.number < running["number"]:
            result = self.answer()
            if result is None:
                raise UsageError(
                    f"the stage {self.stage.name} is not done, but stage {running['name']} is running: "
                    f"repeat from it with --from_stage {self.stage.name}"
                )
            self.next(result, trained)
        if running is None:
            return []
        if self.stage is None:
            raise UsageError(f"the stage {shorten(running['name'])} is running, but the stages end before it")
        now, epochs = self.record(), state["epoch"]
        if running["name"] == now["name"] == MAIN and running["first_epoch"] > now["last_epoch"]:
            return []  # of a later call of `Trainer.fit`
        _check_place(running, now, "running")
        if now["last_epoch"] < epochs:
            raise UsageError(
                f"the stage {now['name']!r} has trained up to epoch {epochs}, but ends with {now['last_epoch']}"
            )
        return [] if now["name"] == MAIN else _changes(running, now)  # those of the run are listed with its params

    def answer(self) -> StageResult | None:
        """Return the result of the stage that is reached, if it is done."""
        stored, stage = self._stored.get(self.reached.number, {}), self.reached
        if "result" not in stored:
            return None
        now, record = self.record(), {key: value for key, value in stored.items() if key != "result"}
        _check_place(record, now, "done")
        if record != now:
            changes = "; ".join(_changes(record, now))
            raise UsageError(f"the stage {stage.name!r} is done, but differs ({changes}): {_ADVICE}")
        return self._read(stored["result"], stage)

    def skip_done(self, trained: History, has_ended: bool = False) -> None:
        """Go to the first stage that trains or is not done; `has_ended`: the training that is reached has ended."""
        while self.stage is not None and (has_ended or not self.stage.trains):
            result, has_ended = self.answer(), False
            if result is None:
                return
            self.next(result, trained)

    def _forget(self, number: int | None) -> None:
        """Forget the records of a stage and of those after it; None: none."""
        if number is not None:
            self._stored = {known: record for known, record in self._stored.items() if known < number}

    def begin(self) -> None:
        """Write what the stage is that is reached, and remove the records of what is run again."""
        record = self.record()
        self._forget(record["number"])
        if self._directories is not None and self._devices.is_chief:
            self._directories.forget(record["number"])
            self._directories.begin(record)

    def finish(self, trained: History, newest: Path | None, **facts: Any) -> StageResult:
        """Write the record of the stage that is reached, and return its result, as a resumed run reads it."""
        stage, own = self.reached, self._directories
        stored = _relative(broadcast(self._devices, {"last_epoch": stage.last_epoch, **facts}), self._root)
        if own is not None and self._devices.is_chief:
            if stage.trains:
                own.keep_history(stage.name, trained.of_epochs(stage.first_epoch, stage.last_epoch))
            if stage.trains and newest is not None and stage.name != MAIN:
                own.keep_state(stage.name, newest)
            own.finish(stage.name, stored)
        return self._read(stored, stage)

    def _read(self, stored: Mapping[str, Any], stage: PlannedStage) -> StageResult:
        """Return the result of a stage. Its file becomes the input of later stages: a name is not read from a file."""
        types: dict[str, Any] = {
            "last_epoch": int,
            "values": dict,
            "best": dict | None,
            "value": object,
            "stop_reason": str,
        }
        if "last_epoch" not in stored or not all(isinstance(stored[key], types.get(key, ())) for key in stored):
            raise UsageError(f"the result of stage {stage.name!r} is damaged: {shorten(dict(stored))}")
        if self._root is None:
            return StageResult(stage.name, stage.first_epoch, **stored)
        directory, file_name = f"{self._root}/{STAGES_DIR}/{stage.name}", getattr(stage.settings, "file_name", None)
        facts = json.loads(json.dumps(stored).replace(_ROOT, _json_text(self._root)))
        file = None if file_name is None else f"{directory}/{file_name}"
        return StageResult(stage.name, stage.first_epoch, directory=directory, file=file, **facts)
