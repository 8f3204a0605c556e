"""Runs as they are on the disk: state, epochs, best value and params, read without a scenario or a backend."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from tfaip.components.formermodel import is_model
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import TfaipError, UsageError
from tfaip.params import option
from tfaip.params.values.flat import flat_flags
from tfaip.params.values.serialization import PACKAGE_KEY, VERSION_KEY, from_dict
from tfaip.trainer.earlystopping import EarlyStoppingParams
from tfaip.trainer.history import History
from tfaip.trainer.historyreading import read_history
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run import names
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.util.files import is_locked
from tfaip.util.manifest import read_json_object
from tfaip.util.paths import path_problem
from tfaip.util.text import ERROR_LIMIT, shorten, shorten_text

# Directories below the given one in which runs are searched.
MAX_DEPTH = 8
# Of an epoch; a file may contain any number.
_MOST_SECONDS = 10**9
# Params that say where a run is and how it was started, not what it does.
_PLACES = ("output_dir", "overwrite", "import_root", "current_epoch", VERSION_KEY, PACKAGE_KEY)
# End of a log: the record of the error that ended the run.
_LOG_BYTES = 2**16
_RECORD = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d+ [A-Z]+ +[\w.]+: (.*)$", re.MULTILINE)
_FAILED = re.compile(r"the run ended with (?!TrainingInterrupted|KeyboardInterrupt|SystemExit)(\w+): (.*)")


class _Pipelines(TrainerPipelineParams[DataGeneratorParams, DataGeneratorParams]):
    """Data of a training with all the fields that scenarios usually declare."""

    lav: DataGeneratorParams | None = option(None, "Generator of the data to load and validate on", mode="ssnake")


# Where the classes of a scenario are not imported.
_DECLARED = TrainerParams[ScenarioBaseParams, _Pipelines]


class RunState(StrEnum):
    """State of a run."""

    RUNNING = "running"  # a process trains in it
    DONE = "done"  # its last epoch was trained, or it has stopped early
    STOPPED = "stopped"  # it can be resumed
    FAILED = "failed"  # an error ended it; it can be resumed if it has a checkpoint
    NEW = "new"  # it has no epoch yet
    DAMAGED = "damaged"  # its params or its history cannot be read


@dataclass(frozen=True)
class BestValue:
    """The best epoch of a run by the value that decides which model is the best.

    Args:
        monitor: name of the value.
        mode: "min" or "max".
        epoch: the first epoch with the best value.
        value: in that epoch.
    """

    monitor: str
    mode: str
    epoch: int
    value: float


@dataclass(frozen=True)
class StoredRun:
    """A run as its directory shows it.

    Args:
        path: the directory, as it was found.
        state: what is happening to it.
        epochs: number of its last epoch, as its params ask for.
        history: rates and values of the epochs so far.
        params: flag without dashes -> stored value, without those that say where the run is; what has no flag is named
            by its dotted path.
        best: its best epoch; None: it has none.
        changed: time of the last change of its history, or else of its params, in seconds since 1970.
        problem: why it cannot be read, or the error that ended it.
    """

    path: Path
    state: RunState
    epochs: int = 0
    history: History = field(default_factory=History)
    params: Mapping[str, Any] = field(default_factory=dict)
    best: BestValue | None = None
    changed: float = 0.0
    problem: str = ""

    @property
    def epoch(self) -> int:
        """Number of epochs so far."""
        return max(trained_epochs(self.history), default=0)

    @property
    def seconds(self) -> float:
        """Time of all epochs so far, without that of starts."""
        times = (self.history[epoch].meta.get("seconds") for epoch in self.history.epochs)
        return sum(float(time) for time in times if isinstance(time, int | float) and 0 < time < _MOST_SECONDS)

    def values(self) -> dict[str, float]:
        """Return the values of the best epoch, or else of the last one."""
        epoch = self.best.epoch if self.best is not None else self.epoch
        return self.history.values(epoch)


def trained_epochs(history: History) -> list[int]:
    """Return the epochs that were trained, ascending: a history may also contain rates for epochs to come."""
    return [epoch for epoch in history.epochs if history[epoch].is_trained]


def find_runs(root: Path) -> list[Path]:
    """Return the directories of all runs at or below `root`, sorted by name; links are not followed.

    Args:
        root: a directory of runs, or a run or something inside of one.

    Raises:
        UsageError: if the directory does not exist, or contains no run.
    """
    problem = path_problem(root)
    if problem is not None:
        raise UsageError(f"no runs in {shorten(str(root))}: the path {problem}")
    shown = shorten_text(str(root), 160)
    if not root.is_dir():
        raise UsageError(f"no runs in {shown}: expected a directory")
    found = sorted(_runs_below(root, 0))
    if not found:
        try:
            return [find_run(root)[0]]
        except UsageError:
            raise UsageError(
                f"no runs in {shown}: expected directories with {names.PARAMS_FILE}, at most {MAX_DEPTH} levels below"
            ) from None
    return found


def _runs_below(directory: Path, depth: int) -> Iterator[Path]:
    if os.path.isfile(directory / names.PARAMS_FILE):  # False also if this user may not look into the directory
        yield directory
        return
    if depth == MAX_DEPTH:
        return
    try:
        with os.scandir(directory) as entries:
            below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:  # not readable for this user, or removed just now
        return
    for name in below:
        if not name.startswith("."):
            yield from _runs_below(directory / name, depth + 1)


def read_run(path: Path) -> StoredRun:
    """Return a run as it is now; nothing is changed, and a training in it goes on."""
    directory = RunDirectory.stored(path)
    changed = max(_time_of(directory.params_file), _time_of(directory.history_file))
    try:
        stored = read_json_object(directory.params_file)
        has_history = directory.history_file.exists()
        history = read_history(directory.history_file) if has_history else History()
    except TfaipError as error:
        return StoredRun(path, RunState.DAMAGED, changed=changed, problem=shorten_text(str(error)))
    epochs = stored.get("epochs")
    epochs = epochs if isinstance(epochs, int) else 0
    best = _best_of(history)
    params = {name: value for name, value in stored.items() if name not in _PLACES}
    state, problem = _state(directory, stored, history, epochs, best), ""
    if state in (RunState.NEW, RunState.STOPPED):
        problem = _logged_failure(directory.log_file)
        state = RunState.FAILED if problem else state
    flags = flat_flags(params, _DECLARED, "trainer")
    return StoredRun(path, state, epochs, history, flags, best, changed, problem)


def _logged_failure(file: Path) -> str:
    """Return the error that ended a run; empty if the log ends otherwise, or cannot be read."""
    if not file.is_file():  # a pipe would wait for its writer
        return ""
    try:
        with open(file, "rb") as log:
            log.seek(max(log.seek(0, os.SEEK_END) - _LOG_BYTES, 0))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    records = _RECORD.findall(text)
    found = _FAILED.fullmatch(records[-1]) if records else None
    if found is None:
        return ""
    kind, message = found.groups()
    is_ours = kind in ("TfaipError", "UsageError")
    return shorten_text(message if is_ours else f"{kind}: {message}", ERROR_LIMIT)


def _time_of(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return 0.0


def _best_of(history: History) -> BestValue | None:
    """Return the best epoch of the last stage."""
    trained = trained_epochs(history)
    if not trained:
        return None
    last = history[trained[-1]].meta
    told = last.get("best")
    if not isinstance(told, dict) or told.get("mode") not in ("min", "max"):
        return None
    monitor, mode = str(told.get("monitor")), told["mode"]
    stage = shorten(last.get("stage"))  # as text, since NaN differs from itself
    first = next(epoch for epoch in trained if shorten(history[epoch].meta.get("stage")) == stage)
    epoch = history.best_epoch(monitor, mode, first=first)
    return None if epoch is None else BestValue(monitor, mode, epoch, history[epoch].values[monitor])


def _state(
    directory: RunDirectory, stored: Mapping[str, Any], history: History, epochs: int, best: BestValue | None
) -> RunState:
    trained = trained_epochs(history)
    if is_locked(directory.root):
        return RunState.RUNNING
    if not trained:
        return RunState.NEW
    has_ended = trained[-1] >= epochs or _has_stopped_early(stored, history, best)
    is_exported = stored.get("export_final") is False or is_model(directory.export)
    return RunState.DONE if has_ended and is_exported else RunState.STOPPED


def _has_stopped_early(stored: Mapping[str, Any], history: History, best: BestValue | None) -> bool:
    group = stored.get("early_stopping")
    if best is None or not isinstance(group, dict):
        return False
    try:
        params: EarlyStoppingParams = from_dict(EarlyStoppingParams, group)
    except TfaipError:  # edited by hand, or of a class of another package
        return False
    return params.status(history.scores(best.monitor), best.mode).stops_after is not None


def differing_params(runs: Sequence[StoredRun]) -> list[str]:
    """Return the names of the params that have several values, in the order of the first run that has them.

    Options that only some of the runs have, since their classes differ, are left out if they are equal in these.
    """
    values: dict[str, list[Any]] = {}
    for run in runs:
        for path, value in run.params.items():
            values.setdefault(path, []).append(value)
    return [path for path, found in values.items() if any(_differ(value, found[0]) for value in found)]


def _differ(a: Any, b: Any) -> bool:
    return bool(a != b) and repr(a) != repr(b)  # NaN differs from itself
