"""Files that a run continues from: its checkpoint, and a history that the user may have edited."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import keras

from tfaip.device.collectives import broadcast
from tfaip.device.devices import Devices
from tfaip.errors import TfaipError, UsageError
from tfaip.model.weights import WeightsDoNotFit
from tfaip.params.fields import FieldAdvice
from tfaip.params.stored import flat_params
from tfaip.params.tree import ABSENT, flag_of, is_hidden
from tfaip.trainer.best import BEST, BestModel
from tfaip.trainer.earlystopping import EARLY_STOPPING
from tfaip.trainer.history import ENDED, History
from tfaip.trainer.historyreading import HistoryFile, read_history_file
from tfaip.trainer.run.checkpoint import Checkpoint, CheckpointStore, checkpoint_name, read_checkpoint
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.names import BEST_DIR
from tfaip.trainer.run.output import RunOutput
from tfaip.trainer.runparams import Params, stored_params
from tfaip.trainer.stages.records import RUNNING, numbered, require_place
from tfaip.trainer.state import beginning
from tfaip.trainer.trainingprogress import TrainingProgress, damage_named, require_state
from tfaip.util.logging import logger
from tfaip.util.text import shorten_text

# Params that say of which data a monitored value is, of any class of `gen`, and which epochs early stopping counts.
_SCORED = re.compile(r"gen\.(?!train\.|setup\.)|gen\.setup\.val\.(limit|max_element)|scenario\.data\.|loss_weights")
_COUNTING = [f"early_stopping.{name}" for name in ("frequency", "lower_threshold", "upper_threshold")]

log = logger(__name__)


@dataclass(frozen=True)
class StartState:
    """State of a run to continue from.

    Args:
        name: of its checkpoint.
        checkpoint: the content.
        is_stored: True if the checkpoint is among those of the run.
        best: a copy of the best model at that time; None: there is none.
        repeated: number of the stage from which on all are run again; None: those that are done stay.
    """

    name: str
    checkpoint: Checkpoint
    is_stored: bool
    best: Path | None
    repeated: int | None = None

    def store(self, store: CheckpointStore) -> None:
        """Make the checkpoint one of the run, and remove those that are newer."""
        if not self.is_stored:
            store.add(self.checkpoint, self.name, self.best)
        store.continue_from(self.name)


def checkpoint_to_resume(directory: RunDirectory | None, name: str | None) -> StartState:
    """Read and verify the checkpoint that a run continues from; change nothing.

    Args:
        directory: the directory of the run.
        name: of a checkpoint; None: the newest undamaged one.

    Raises:
        UsageError: if there is none, or the run cannot be continued.
    """
    store = CheckpointStore(_resumable(directory).checkpoints)
    name, checkpoint = store.read(name)
    _check_state(checkpoint)
    return StartState(name, checkpoint, is_stored=True, best=store.best_of(name))


def state_before_stage(directory: RunDirectory | None, params: Params, stage: str) -> StartState:
    """Read and verify the state that a run had when one of its stages began; change nothing.

    Args:
        directory: the directory of the run.
        params: its params.
        stage: name of the stage.

    Raises:
        UsageError: if no such stage has begun, or the state was not kept.
    """
    directory = _resumable(directory)
    repeated, trained = numbered(directory.stage_directories(), stage)
    if trained is None:
        start = beginning(params, {RUNNING: None})
        return StartState(checkpoint_name(0), start, is_stored=False, best=None, repeated=repeated)
    path = directory.stage_directories().state(trained)
    if not path.is_dir():
        raise UsageError(
            f"the state at the end of stage {trained}, from which {stage} begins, is not there: the stage is not "
            "done yet; choose an earlier stage"
        )
    try:
        checkpoint = read_checkpoint(path)
    except TfaipError as error:
        raise UsageError(f"the state at the end of stage {trained} cannot be used: {error}") from error
    _check_state(checkpoint)
    best = path / BEST_DIR
    name = checkpoint_name(checkpoint.state["epoch"])
    return StartState(name, checkpoint, is_stored=False, best=best if best.is_dir() else None, repeated=repeated)


def _resumable(directory: RunDirectory | None) -> RunDirectory:
    if directory is None:
        raise FieldAdvice("there is nothing to resume without an output directory: set {output_dir}", "output_dir")
    directory.check_resumable()
    return directory


def _check_state(checkpoint: Checkpoint) -> None:
    require_state(checkpoint.state)
    require_place(checkpoint.state)
    before, now = checkpoint.state["backend"], keras.backend.backend()
    if before != now:
        log.warning("the checkpoint was written on %s and continues on %s: equal only up to rounding", before, now)


def log_changes(params: Params, restored: Checkpoint) -> None:
    """Log the differences from the params of the checkpoint, made by flags or by an edited file."""
    for path, change in _changes(params, restored).items():
        is_rate = path == "learning_rate.lr" and not params.learning_rate.uses_lr(restored.state["epoch"] + 1)
        if is_rate or (path.startswith("warmstart.") and restored.arrays):
            log.warning("no effect on a run that continues: %s", change)
        else:
            log.info("changed %s", change)


@damage_named()
def end_comparisons(params: Params, restored: Checkpoint, best: BestModel, history: History) -> None:
    """Mark the last epoch if later ones do not compare with it: the best model begins again, or early stopping counts.

    Args:
        params: the params of the run.
        restored: the checkpoint that it continues from.
        best: what decides now which epoch is the best.
        history: its records, which the user may have edited.
    """
    last, before = restored.state["epoch"], History.from_dict(restored.state["history"])
    if last < best.first_epoch or not (last in history and last in before):
        return
    changes, meta = _changes(params, restored), before[last].meta
    ended = set(meta.get(ENDED, []))
    old, new = restored.state["params"]["early_stopping"]["n_to_go"], params.early_stopping.n_to_go
    if any(path in changes for path in _COUNTING) or not (new == -1 or 0 < old <= new):
        ended.add(EARLY_STOPPING)
    decided = meta.get("best", {"monitor": best.monitor, "mode": best.mode})
    monitor, mode = decided["monitor"], decided["mode"]
    reasons = [change for path, change in changes.items() if _SCORED.match(path)]
    for epoch in range(best.compared_from(before), last + 1):
        if str(history.value(epoch, monitor)) != str(before.value(epoch, monitor)):  # NaN is equal
            reasons.append(f"{monitor} of epoch {epoch} was edited")
    if (mode, monitor) != (best.mode, best.monitor):
        reasons = [f"{best.mode} {best.monitor} decides, not {mode} {monitor}", *reasons]
    if reasons and BEST not in ended:
        ended.add(BEST)
        log.warning("the best model begins again after epoch %d: %s", last, shorten_text("; ".join(reasons), 200))
    history[last].meta = {**meta, ENDED: sorted(ended)} if ended else meta


@contextmanager
def changes_named(params: Params, restored: Checkpoint | None) -> Iterator[None]:
    """Return a context in which weights that do not fit the model are an error that names the changed params."""
    try:
        yield
    except WeightsDoNotFit as error:
        changes = [] if restored is None else [shorten_text(c, 100) for c in _changes(params, restored).values()]
        if not changes:
            raise
        raise UsageError(f"{error}; changed: {', '.join(changes[:5])}") from error


def _changes(params: Params, restored: Checkpoint) -> dict[str, str]:
    """Return the differences from the params of the checkpoint by path, such as `--trainer.epochs: 1 -> 2`."""
    old, new = flat_params(restored.state["params"]), flat_params(stored_params(params))
    changes = {}
    for path in dict.fromkeys([*old, *new]):
        before, after = old.get(path, ABSENT), new.get(path, ABSENT)
        if before != after and not is_hidden(params, path):
            changes[path] = f"{flag_of(params, params.flag_root, path)}: {before} -> {after}"
    return changes


def load_history(
    params: Params,
    reached: Params | None,
    output: RunOutput,
    progress: TrainingProgress,
    devices: Devices,
    is_resumed: bool,
) -> None:
    """Take over the history file: rates of a new training, or records that the user may have edited.

    Args:
        params: the params of the run.
        reached: those of the stage that is set up, which continues with the last rate of the file too if it has the
            learning rate of the run; None: there is none. Later stages are made of `params`.
        output: its output, which names the file.
        progress: gets the history.
        devices: the processes, which all get it.
        is_resumed: the training is continued.
    """
    path = output.history_file
    file = _read_history_file(params, output, is_resumed)
    if file is not None and is_resumed:
        progress.history = progress.history.edited(file.history, progress.epoch)
    elif file is not None:
        progress.history = file.history.rates_only()
        log.info("rates of %d epochs are those in %s", len(progress.history), path)
    if devices.num_processes > 1:
        progress.history = History.from_dict(broadcast(devices, progress.history.to_dict()))
    if not is_resumed:
        given, rules = progress.history, [params.learning_rate]
        if reached is not None and reached is not params and reached.learning_rate == params.learning_rate:
            rules.append(reached.learning_rate)
        for rule in rules:
            progress.history = rule.continue_from(given)


def _read_history_file(params: Params, output: RunOutput, is_resumed: bool) -> HistoryFile | None:
    """Return the content of the history file; None if there is none to take over."""
    path, run = output.history_file, output.directory
    if path is None or not (is_resumed or params.history_file):
        return None
    # The directory of the run may be created later.
    if not path.parent.is_dir() and (run is None or path.parent.absolute() != run.root.absolute()):
        shown = shorten_text(str(path.parent), 160)
        raise FieldAdvice(f"{shown} is no directory: change {{history_file}}", "history_file")
    if params.history_file is not None:
        params.history_file = str(path.absolute())
    if not path.exists():
        return None
    file = read_history_file(path)
    if file.is_returnn and is_resumed:
        raise FieldAdvice(
            f"{path} is a learning_rate_file of RETURNN, which gives rates to a new training only: leave out "
            "{history_file}",
            "history_file",
        )
    if file.is_returnn:
        # It is read and never replaced: the run writes its history to the default place.
        params.history_file = None
        output.history_file = None if run is None else run.history_file
    return file
