"""Runs as their directories show them: state, epochs, best value and params, without a scenario or a backend."""

import contextlib
import os
import re
from pathlib import Path
from typing import Any

from tfaip.components.modelfiles import is_model
from tfaip.components.params import ScenarioBaseParams
from tfaip.components.pipelineparams import TrainerPipelineParams
from tfaip.data.databaseparams import DataGeneratorParams
from tfaip.errors import TfaipError
from tfaip.params import option
from tfaip.params.stored import PACKAGE_KEY, VERSION_KEY, flat_flags, from_dict
from tfaip.trainer.best import EARLY_STOPPING, BestModel, EarlyStoppingParams
from tfaip.trainer.history import History, read_history
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.trainer.run.names import PARAMS_FILE
from tfaip.util.files import is_locked
from tfaip.util.reading import read_json
from tfaip.util.text import ERROR_LIMIT, shorten_text

_CLASSES = {"__cls__", "scenario.__cls__", "gen.__cls__"}  # those of the scenario
# Params that say where a run is and how it was started, not what it does.
_PLACES = ("output_dir", "overwrite", "current_epoch", VERSION_KEY, PACKAGE_KEY)
_FAILED = re.compile(
    r": the run ended with (?!TrainingInterrupted|KeyboardInterrupt|SystemExit)(?:TfaipError: |UsageError: )?(.*)"
    r"(?:\n(?!\d{4}-\d\d-\d\d ).*)*\Z"
)


class _Pipelines(TrainerPipelineParams[DataGeneratorParams, DataGeneratorParams]):
    """Data of a training with all the fields that scenarios usually declare."""

    lav: DataGeneratorParams | None = option(None, "Generator of the data to load and validate on", mode="ssnake")


# Where the classes of a scenario are not imported.
_DECLARED = TrainerParams[ScenarioBaseParams, _Pipelines]


def find_runs(root: Path) -> list[Path]:
    """Return the directories of all runs at or below `root`, sorted by name; links are not followed.

    Args:
        root: a directory of runs, or a run or something inside of one.

    Raises:
        UsageError: if there is no run.
    """
    found = []
    for directory, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith(".") and PARAMS_FILE not in files]
        found += [Path(directory)] if PARAMS_FILE in files else []
    return sorted(found) or [find_run(root)[0]]


def read_run(path: Path) -> dict[str, Any]:
    """Return what the directory of a run shows now; nothing is changed, and a training in it continues.

    Returns:
        run: the directory, as it was found.
        state: running (a process trains in it), done (its last epoch was trained, or it has stopped early), stopped (it
            can be resumed), failed (an error ended it), new (it has no epoch yet), or damaged (it cannot be read).
        epoch, epochs: epochs so far, and number of the last one, as the params ask for.
        monitor, mode, best, best_epoch: the value that tells the best model, and the first epoch with the best one, of
            the last stage; no name and None if there is none.
        seconds: time of all epochs so far, without that of starts.
        params: flag without dashes -> stored value, without those that say where the run is; what has no flag is named
            by its dotted path.
        values: of the best epoch, or else of the last one.
        problem: why the run cannot be read, or the error that ended it.
    """
    directory, stored, history, problem = RunDirectory.stored(path), {}, History(), ""
    try:
        stored = read_json(directory.params_file)
        history = read_history(directory.history_file) if directory.history_file.exists() else history
    except TfaipError as error:
        problem = shorten_text(str(error))
    metas = {epoch: history[epoch].meta for epoch in history.epochs if history[epoch].is_trained}
    epoch, epochs = max(metas, default=0), stored.get("epochs")
    decided = metas[epoch].get("best") if metas else None
    best = BestModel("min", "")  # no value has this name
    if isinstance(decided, dict) and decided.get("mode") in ("min", "max"):
        first = next(e for e in metas if str(metas[e].get("stage")) == str(metas[epoch].get("stage")))
        best = BestModel(decided["mode"], str(decided.get("monitor")), first)
    best_epoch = best.epoch(history)
    values = history.values(best_epoch or epoch)
    has_ended = not isinstance(epochs, int) or epoch >= epochs
    with contextlib.suppress(TfaipError, AttributeError, TypeError):  # params of another version, or none
        stopping: EarlyStoppingParams = from_dict(EarlyStoppingParams, stored.get("early_stopping", {}))
        status = stopping.status(best.values(history), best.mode, history.epoch_after(EARLY_STOPPING))
        has_ended = has_ended or status.stops_after is not None
    if problem:
        state = "damaged"
    elif is_locked(path):
        state = "running"
    elif metas and has_ended and (stored.get("export_final") is False or is_model(directory.export)):
        state = "done"
    else:
        problem = _logged_failure(directory.log_file)
        state = "failed" if problem else "stopped" if metas else "new"
    seconds = [meta.get("seconds") for meta in metas.values()]
    total = sum(float(time) for time in seconds if isinstance(time, int | float) and 0 < time < 10**9)
    flags = flat_flags({key: value for key, value in stored.items() if key not in _PLACES}, _DECLARED, "trainer")
    params = {flag: value for flag, value in flags.items() if flag not in _CLASSES}
    facts = {"run": str(path), "state": state, "epoch": epoch, "epochs": epochs, "monitor": best.monitor}
    facts |= {"mode": best.mode, "best": values[best.monitor] if best_epoch else None, "best_epoch": best_epoch}
    return {**facts, "seconds": round(total, 3), "params": params, "values": values, "problem": problem}


def _logged_failure(file: Path) -> str:
    """Return the error that ended a run; empty if the log ends otherwise, or cannot be read."""
    if not file.is_file() or not os.access(file, os.R_OK):  # a pipe would wait for its writer
        return ""
    with open(file, "rb") as log:
        log.seek(max(log.seek(0, os.SEEK_END) - 2**16, 0))  # the last record may be the error
        found = _FAILED.search(log.read().decode(errors="replace"))
    return shorten_text(found[1], ERROR_LIMIT) if found else ""
