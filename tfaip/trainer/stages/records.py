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
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import PlannedStage, StageProgram, StageResult
from tfaip.trainer.state import TrainingProgress
from tfaip.util.text import shorten, shorten_text

RUNNING = "stage"
"""Key of the record of the running stage in the state of a checkpoint; None: the first stage has not begun."""
_ROOT = "{output_dir}"
_ADVICE = "change it back, or repeat from a stage with --from_stage"
_PLACE = ("number", "name", "kind", "first_epoch")
# Of the facts in the record of a stage that is done.
_TYPES: dict[str, Any] = {"last_epoch": int, "values": dict, "best": dict | None, "value": object, "stop_reason": str}


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


class StageSequence:
    """Stages of a run, one after the other; those that are done are answered from their records.

    Args:
        program: see `planned_stages`.
        history: what the program sees: it grows with every finished stage.
        progress: of the training, with the history of all epochs.
        devices: the processes, which all run the program; the chief reads and writes the records.
        directories: of the stages; None: the run writes nothing, or has no stages.
    """

    def __init__(
        self,
        program: StageProgram,
        history: History,
        progress: TrainingProgress,
        devices: Devices,
        directories: StageDirectories | None,
    ) -> None:
        self._program, self._history, self._progress = program, history, progress
        self._devices, self._directories = devices, directories
        self._root = None if directories is None else directories.root
        self._stored: dict[int, dict[str, Any]] = {}  # the records of the run that is resumed
        self._results: dict[str, StageResult] = {}
        self.stage: PlannedStage | None = None
        """The stage that is reached; None: all are done."""

    def directories(self) -> dict[str, Path]:
        """Return the directories of the finished stages by name."""
        return {name: Path(result.directory) for name, result in self._results.items() if result.directory}

    @property
    def reached(self) -> PlannedStage:
        """The stage that is reached; there is one."""
        assert self.stage is not None  # noqa: S101 (the caller knows it)
        return self.stage

    def record(self) -> dict[str, Any]:
        """Return what must not change in the stage that is reached, JSON-able; paths in the run are relative to it."""
        stage = self.reached
        settings = {} if stage.name == MAIN else encode(stage.settings)
        settings.pop("epochs", None)
        place = {name: getattr(stage, name) for name in ("number", "name", "first_epoch", "last_epoch")}
        return _relative({**settings, **place, "kind": stage.settings.kind}, self._root)

    def begin(self) -> None:
        """Write what the stage is that is reached, and remove the records of what is run again."""
        record = self.record()
        if self._directories is not None and self._devices.is_chief:
            self._directories.forget(record["number"])
            self._directories.begin(record)

    def finish(self, newest: Path | None, **facts: Any) -> None:
        """Write the record of the stage that is reached, and go to the next one, as a resumed run does."""
        stage, own, trained = self.reached, self._directories, self._progress.history
        stored = _relative(broadcast(self._devices, {"last_epoch": stage.last_epoch, **facts}), self._root)
        if own is not None and self._devices.is_chief:
            if stage.trains:
                own.keep_history(stage.name, trained.of_epochs(stage.first_epoch, stage.last_epoch))
            if stage.trains and newest is not None and stage.name != MAIN:
                own.keep_state(stage.name, newest)
            own.finish(stage.name, stored)
        self._next(self._result(stored))

    def start(self, state: Mapping[str, Any] | None, repeated: int | None = None) -> list[str]:
        """Go to the stage of a checkpoint, or to the first one to run; return its changes, in words.

        Args:
            state: of the checkpoint; None: nothing is resumed.
            repeated: number of the stage from which on all are run again; None: those that are done stay.
        """
        if self._directories is not None and state is not None:
            records = broadcast(self._devices, self._directories.records() if self._devices.is_chief else [])
            self._stored = {r["number"]: r for r in records if repeated is None or r["number"] < repeated}
        running = None if state is None else state[RUNNING]
        self._next(None)
        if state is None or running is None:
            self.skip_done()
            return []
        while self.stage is not None and self.stage.number < running["number"]:
            if not self._answer():
                raise UsageError(
                    f"the stage {self.stage.name} is not done, but stage {running['name']} is running: "
                    f"repeat from it with --from_stage {self.stage.name}"
                )
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

    def skip_done(self, has_ended: bool = False) -> None:
        """Go to the first stage that trains or is not done; `has_ended`: the training that is reached has ended."""
        while self.stage is not None and (has_ended or not self.stage.trains) and self._answer():
            has_ended = False

    def _answer(self) -> bool:
        """Go to the stage after the one that is reached if that is done; else return False."""
        stored, stage = self._stored.get(self.reached.number, {}), self.reached
        if "result" not in stored:
            return False
        now, record = self.record(), {key: value for key, value in stored.items() if key != "result"}
        _check_place(record, now, "done")
        if record != now:
            changes = "; ".join(_changes(record, now))
            raise UsageError(f"the stage {stage.name!r} is done, but differs ({changes}): {_ADVICE}")
        self._next(self._result(stored["result"]))
        return True

    def _next(self, result: StageResult | None) -> None:
        """Send the result of the stage into the program, and go to the stage that it yields."""
        if result is not None:
            self._results[result.name] = result
            for epoch in self._progress.history.epochs:
                if epoch <= result.last_epoch and epoch not in self._history:
                    self._history.record(epoch, self._progress.history[epoch])
        try:
            self.stage = self._program.send(result)
        except StopIteration:
            self.stage = None
        if self._devices.num_processes == 1:
            return
        own = json.dumps(None if self.stage is None else self.record(), sort_keys=True)
        found = all_gather(self._devices, own.encode())
        for number, text in enumerate(found):
            if text != found[0]:
                distributed.leave_together()
                shown = " and ".join(shorten_text(stage.decode(), 200) for stage in (found[0], text))
                raise UsageError(f"the stages of processes 0 and {number} differ: {shown}")

    def _result(self, stored: Mapping[str, Any]) -> StageResult:
        """Return the result of a stage. Its file becomes the input of later stages: a name is not read from a file."""
        stage = self.reached
        if "last_epoch" not in stored or not all(isinstance(stored[key], _TYPES.get(key, ())) for key in stored):
            raise UsageError(f"the result of stage {stage.name!r} is damaged: {shorten(dict(stored))}")
        if self._root is None:
            return StageResult(stage.name, stage.first_epoch, **stored)
        directory, file_name = f"{self._root}/{STAGES_DIR}/{stage.name}", getattr(stage.settings, "file_name", None)
        facts = json.loads(json.dumps(stored).replace(_ROOT, _json_text(self._root)))
        file = None if file_name is None else f"{directory}/{file_name}"
        return StageResult(stage.name, stage.first_epoch, directory=directory, file=file, **facts)
