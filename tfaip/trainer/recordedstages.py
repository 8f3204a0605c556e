"""The stages of a run one after the other, and the records from which those that are done are answered."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.device.collectives import broadcast, check_equal
from tfaip.device.devices import Devices
from tfaip.errors import UsageError
from tfaip.params.codec import encode
from tfaip.trainer.history import History
from tfaip.trainer.params import Params
from tfaip.trainer.run.directory import StageDirectories
from tfaip.trainer.run.names import STAGES_DIR
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import PlannedStage, Preview, StageResult, planned_stages, stored_changes
from tfaip.trainer.state import RUNNING, TrainingProgress
from tfaip.util.logging import logger
from tfaip.util.text import shorten, shorten_text

log = logger(__name__)

_ROOT = "{output_dir}"
_ADVICE = "change it back, or resume from an earlier checkpoint, or from a stage with --from_stage"
_PLACE = ("number", "name", "kind", "first_epoch")
# Of the facts in the record of a stage that is done.
_TYPES: dict[str, Any] = {"last_epoch": int, "values": dict, "best": dict | None, "value": object, "stop_reason": str}


class RecordedStages:
    """The program of a run, which goes from stage to stage; those that are done are answered from their records.

    Every process runs the program and takes the same decisions; the chief alone reads and writes the records.

    Args:
        params: the params of the run.
        scenario: gives the program.
        preview: the stages as far as they are known.
        progress: of the run; its history becomes, stage by stage, that which the program sees.
        directories: of the stages; None: the run has none.
        devices: its processes.
    """

    def __init__(
        self,
        params: Params,
        scenario: Any,
        preview: Preview,
        progress: TrainingProgress,
        directories: StageDirectories | None,
        devices: Devices,
    ) -> None:
        self._progress, self._directories, self._devices = progress, directories, devices
        self._root = None if directories is None else directories.root
        self._history = History()
        self._program = planned_stages(params, scenario, self._history)
        if preview.is_fixed:
            self._program = (stage for stage in preview.stages)
        self._stored: dict[int, dict[str, Any]] = {}  # the records of the run that is resumed
        self.finished: dict[str, Path] = {}
        """Directories of the finished stages by name."""
        self.reached: PlannedStage | None = None
        """The stage that is reached; None: all are done."""

    def record(self, stage: PlannedStage) -> dict[str, Any]:
        """Return what must not change in a stage, JSON-able; paths in the run are relative to it."""
        settings = {} if stage.name == MAIN else encode(stage.settings)
        settings.pop("epochs", None)
        place = {name: getattr(stage, name) for name in ("number", "name", "first_epoch", "last_epoch")}
        return _relative({**settings, **place, "kind": stage.settings.kind}, self._root)

    def begin(self, stage: PlannedStage) -> None:
        """Write what a stage is, and remove the records of what is run again."""
        if self._directories is not None and self._devices.is_chief:
            self._directories.forget(stage.number)
            self._directories.begin(self.record(stage))

    def finish(self, stage: PlannedStage, newest: Path | None, facts: Mapping[str, Any]) -> None:
        """Write the record of the stage that is reached, and go to the next one, as a resumed run does."""
        stored = _relative(broadcast(self._devices, {"last_epoch": stage.last_epoch, **facts}), self._root)
        if self._directories is not None and self._devices.is_chief:
            has_state = stage.trains and stage.name != MAIN
            self._directories.finish(stage.name, stored, newest if has_state else None)
        self._next(self._result(stage, stored))

    def go_to(self, state: Mapping[str, Any] | None, repeated: int | None = None) -> None:
        """Go to the stage of a checkpoint, or to the first one to run; log the changes of the stage.

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
            return
        while (stage := self.reached) is not None and stage.number < running["number"] and self._answer(stage):
            pass
        now, epochs = {} if self.reached is None else self.record(self.reached), state["epoch"]
        _check_same({key: running.get(key) for key in _PLACE}, {key: now.get(key) for key in _PLACE}, "running")
        if now["last_epoch"] < epochs:
            what = "run" if now["name"] == MAIN else f"stage {now['name']!r}"
            raise UsageError(f"the {what} has trained up to epoch {epochs}, but ends with {now['last_epoch']}")
        for change in [] if now["name"] == MAIN else _changes(running, now):  # those of main are changes of the run
            log.info("changed stage %s: %s", now["name"], change)

    def skip_done(self, has_ended: bool = False) -> None:
        """Go to the first stage that trains or is not done; `has_ended`: the training that is reached has ended."""
        while (stage := self.reached) is not None and (has_ended or not stage.trains) and self._answer(stage):
            has_ended = False

    def _answer(self, stage: PlannedStage) -> bool:
        """Go to the stage after the one that is reached if that is done; else return False."""
        stored = self._stored.get(stage.number, {})
        if "result" not in stored:
            return False
        _check_same({key: value for key, value in stored.items() if key != "result"}, self.record(stage), "done")
        self._next(self._result(stage, stored["result"]))
        return True

    def _next(self, result: StageResult | None) -> None:
        """Send the result of the stage into the program, and go to the stage that it yields."""
        if result is not None:
            if result.directory is not None:
                self.finished[result.name] = Path(result.directory)
            for epoch in self._progress.history.epochs:
                if epoch <= result.last_epoch and epoch not in self._history:
                    self._history.record(epoch, self._progress.history[epoch])
        try:
            self.reached = stage = self._program.send(result)
        except StopIteration:
            self.reached = stage = None
        if self._devices.num_processes > 1:
            check_equal(self._devices, {} if stage is None else {f"stage {stage.name}": self.record(stage)})

    def _result(self, stage: PlannedStage, stored: Mapping[str, Any]) -> StageResult:
        """Return the result of a stage. Its file becomes the input of later stages: a name is not read from a file."""
        if "last_epoch" not in stored or not all(isinstance(stored[key], _TYPES.get(key, ())) for key in stored):
            raise UsageError(f"the result of stage {stage.name!r} is damaged: {shorten(dict(stored))}")
        if self._root is None:
            return StageResult(stage.name, stage.first_epoch, **stored)
        directory, file_name = f"{self._root}/{STAGES_DIR}/{stage.name}", stage.settings.result_file()
        facts = json.loads(json.dumps(stored).replace(_ROOT, _json_text(self._root)))
        file = None if file_name is None else f"{directory}/{file_name}"
        return StageResult(stage.name, stage.first_epoch, directory=directory, file=file, **facts)


def _relative(value: Any, root: Path | None) -> Any:
    """Return a JSON value in whose texts the directory of the run is `{output_dir}`."""
    text = json.dumps(value)
    if root is not None:
        # At the beginning of a text, or of a word in it.
        text = re.sub(rf"(?<![^\s'\"=]){re.escape(_json_text(root))}(?=[/\"])", lambda match: _ROOT, text)
    return json.loads(text)


def _json_text(root: Path) -> str:
    return json.dumps(str(root))[1:-1]


def _changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    changes = stored_changes(before, now).items()
    return [shorten_text(f"{key}: {shorten(old)} -> {shorten(new)}") for key, (old, new) in changes]


def _check_same(record: Mapping[str, Any], now: Mapping[str, Any], state: str) -> None:
    """Raise a `UsageError` if a stage that is done or running is now another one, or differs."""
    if changes := "; ".join(_changes(record, now)):
        raise UsageError(f"the stage {shorten(record['name'])} is {state}, but differs ({changes}): {_ADVICE}")
