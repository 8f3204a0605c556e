"""Start of a run in its directory: fresh, or from a checkpoint and a history that the user may have edited."""

import copy
import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import keras

from tfaip.backend.active import backend
from tfaip.device.collectives import broadcast, check_equal, explain_lost_process
from tfaip.device.devices import Devices, open_devices
from tfaip.errors import UsageError
from tfaip.params.fields import FieldAdvice
from tfaip.params.settings import flags_of, prepare, require_readable
from tfaip.params.stored import flat_params, save_params
from tfaip.params.tree import flag_of, place_at
from tfaip.trainer.best import BEST, EARLY_STOPPING, BestModel
from tfaip.trainer.datasets import Scenario
from tfaip.trainer.history import ENDED, History, read_history
from tfaip.trainer.params import Params
from tfaip.trainer.run.directory import RunDirectory, StageDirectories
from tfaip.trainer.run.names import BEST_DIR, PARAMS_FILE
from tfaip.trainer.run.output import Checkpoint, CheckpointStore, checkpoint_name, read_checkpoint
from tfaip.trainer.run.permission import Permission, record_permission
from tfaip.trainer.signals import StopRequest
from tfaip.trainer.stagedrun import Run
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import stored_changes
from tfaip.trainer.state import beginning, stored_params, without_cluster
from tfaip.util.logging import logger, only_warnings
from tfaip.util.text import shorten, shorten_text

# Params that say of which data a monitored value is, of any class of `gen`, and which epochs early stopping counts.
_SCORED = re.compile(r"gen\.(?!train\.|setup\.)|gen\.setup\.val\.(limit|max_element)|scenario\.data\.|loss_weights")
_COUNTING = [f"early_stopping.{name}" for name in ("frequency", "lower_threshold", "upper_threshold")]

log = logger(__name__)


# Params, devices and seed


def check_params(params: Params, scenario: Scenario) -> None:
    """Raise a UsageError if a value is not possible, or what a run with these params stores cannot be read again."""
    prepare(params, "trainer")
    if params.output_dir is not None:
        require_readable(params, type(scenario).trainer_params_cls(), "trainer")


@contextmanager
def opened_devices(params: Params, stop: StopRequest | None = None) -> Iterator[tuple[Devices, StopRequest]]:
    """Open the devices of a run for the block, in which a signal asks it to stop and the chief alone logs."""
    with flags_of(params, "trainer", "device"):
        devices = open_devices(params.device)
    with ExitStack() as stack:
        stack.enter_context(devices.scope())
        stack.enter_context(explain_lost_process(devices))
        if not devices.is_chief:
            stack.enter_context(only_warnings())
        yield devices, stack.enter_context(stop or StopRequest(devices, params.device.preemption_signal))


def seed_run(params: Params, scenario: Scenario, devices: Devices, restored: Checkpoint | None) -> None:
    """Seed the random generators; a seed that is not given is that of the checkpoint, or drawn."""
    if devices.num_processes > 1:
        values = flat_params(stored_params(params))
        check_equal(devices, {flag_of(params, params.flag_root, path): value for path, value in values.items()})
    if params.random_seed is None and restored is not None:
        params.random_seed = restored.state["params"].get("random_seed")
    if params.random_seed is None:
        params.random_seed = broadcast(devices, secrets.randbelow(2**31))
    backend.seed(params.random_seed)
    name, on = scenario.scenario_id(), f"keras/{keras.backend.backend()}, {devices.describe()}"
    log.info("training %s on %s, random seed %d", name, on, params.random_seed)


# The state to continue from


@dataclass(frozen=True)
class StartState:
    """State of a run to continue from.

    Args:
        name: of its checkpoint.
        checkpoint: the content.
        path: its directory, in which is a copy of the best model of that time; None: the run has not begun.
        from_stage: name of the stage from which on all are run again; None: those that are done stay. The checkpoint
            is not among those of the run then.
        repeated: its number.
    """

    name: str
    checkpoint: Checkpoint
    path: Path | None
    from_stage: str | None = None
    repeated: int | None = None

    @property
    def best(self) -> Path | None:
        """The copy of the best model; None: there was none."""
        best = None if self.path is None else self.path / BEST_DIR
        return best if best is not None and best.is_dir() else None


def state_to_continue(
    directory: RunDirectory | None, params: Params, name: str | None, from_stage: str | None
) -> StartState | None:
    """Read and verify the state that a run continues from; change nothing."""
    if directory is None:
        raise FieldAdvice("there is nothing to resume without an output directory: set {output_dir}", "output_dir")
    if name is None and from_stage is None and directory.may_begin_again():
        shown = shorten_text(str(directory.root), 160)
        log.info("%s was stopped before its first checkpoint: it begins again, with its stored params", shown)
        return None
    directory.check_resumable()
    if from_stage is not None:
        start = _state_before_stage(directory.stage_directories(), params, from_stage)
    else:
        name, checkpoint = CheckpointStore(directory.checkpoints).read(name)
        start = StartState(name, checkpoint, directory.checkpoints / name)
    before, now = start.checkpoint.state["backend"], keras.backend.backend()
    if before != now:
        log.warning("the checkpoint was written on %s and continues on %s: equal only up to rounding", before, now)
    return start


def _state_before_stage(directories: StageDirectories, params: Params, stage: str) -> StartState:
    records = directories.records()
    names = [record["name"] for record in records] or [MAIN]
    if stage not in names:
        raise UsageError(f"no stage {shorten(stage)} has begun; those that have are {', '.join(names)}")
    before = records[: names.index(stage)]
    # Without training the last epoch is that before the first.
    repeated, trained = len(before), [r["name"] for r in before if r["last_epoch"] >= r["first_epoch"]]
    if not trained:
        return StartState(checkpoint_name(0), beginning(params), None, stage, repeated)
    path = directories.state(trained[-1])
    checkpoint = read_checkpoint(path)
    return StartState(checkpoint_name(checkpoint.state["epoch"]), checkpoint, path, stage, repeated)


# The directory


def claim_directory(
    run: Run, scenario: type[Scenario], start: StartState | None, permission: Permission | None
) -> None:
    """Make the locked directory of a run its own, and store the params in it.

    What the run repeats is removed only now, when the new process has been built and has taken over the state. A
    process that is killed here may be resumed from any checkpoint that there still is.
    """
    params, directory = run.params, run.output.directory
    assert directory is not None  # noqa: S101 (the caller knows it)
    if start is None:
        directory.claim(params.overwrite)
    else:
        directory.clean_up()
    params.overwrite = False  # a permission for once: stored params must not repeat it
    params.keras_backend = keras.backend.backend()
    stored = without_cluster(params)
    stored.scenario = copy.copy(params.scenario)
    stored.scenario.scenario_id = scenario.scenario_id()
    if permission is not None:
        record_permission(directory.params_file, stored, scenario, permission, start is not None)
    save_params(directory.params_file, stored)
    if directory.params_copy:
        save_params(directory.root / directory.params_copy, stored)
    if start is None:
        return
    store = CheckpointStore(directory.checkpoints, params.keep_checkpoints, directory.root)
    directory.restore_best(start.best, start.name)
    if start.repeated is not None:
        store.add(start.checkpoint, start.name, start.best)
        directory.stage_directories().forget(start.repeated, kept=start.from_stage)
    store.continue_from(start.name)


# Changes since the checkpoint


def _changes(params: Params, restored: Checkpoint) -> dict[str, str]:
    """Return the differences from the params of the checkpoint by path, such as `--trainer.epochs: 1 -> 2`."""
    changes = {}
    for path, (before, after) in stored_changes(restored.state["params"], stored_params(params)).items():
        place = place_at(params, params.flag_root, path)
        if not place.is_hidden:
            changes[path] = f"{place.label}: {before} -> {after}"
    return changes


def log_changes(run: Run, restored: Checkpoint) -> None:
    """Log the differences from the params of the checkpoint, and end comparisons that they make impossible."""
    params, changes = run.params, _changes(run.params, restored)
    for path, change in changes.items():
        is_rate = path == "learning_rate.lr" and not params.learning_rate.uses_lr(restored.state["epoch"] + 1)
        if is_rate or (path.startswith("warmstart.") and restored.arrays):
            log.warning("no effect on a run that continues: %s", change)
        else:
            log.info("changed %s", change)
    if run.latest is not None:
        _end_comparisons(params, restored, changes, run.latest.best, run.progress.history)


def changes_text(params: Params, restored: Checkpoint | None) -> str:
    """Return the first differences from the params of the checkpoint, for an error that they may have caused."""
    changes = [] if restored is None else _changes(params, restored).values()
    return ", ".join(shorten_text(change, 100) for change in [*changes][:5])


def _end_comparisons(
    params: Params, restored: Checkpoint, changes: dict[str, str], best: BestModel, history: History
) -> None:
    """Mark the last epoch if later ones do not compare with it: the best model or early stopping begins again."""
    last, before = restored.state["epoch"], History.parse(restored.state["history"])
    if last < best.first_epoch or not (last in history and last in before):
        return
    meta = before[last].meta
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


# The history


def load_history(run: Run, is_resumed: bool) -> None:
    """Take over the history file: rates of a new training, or records that the user may have edited."""
    params, path, progress = run.params, run.output.history_file, run.progress
    if path is not None and (is_resumed or params.history_file):
        _read_history_file(run, path, is_resumed)
    if run.devices.num_processes > 1:
        progress.history = History.parse(broadcast(run.devices, progress.history.text()))


def _read_history_file(run: Run, path: Path, is_resumed: bool) -> None:
    params, directory, progress = run.params, run.output.directory, run.progress
    parent, own = path.parent.resolve(), None if directory is None else directory.root.resolve()
    # The directory of the run may be created later.
    if not parent.is_dir() and parent != own:
        shown = shorten_text(str(path.parent), 160)
        raise FieldAdvice(f"{shown} is no directory: change {{history_file}}", "history_file")
    if params.history_file is not None:
        params.history_file = str(path.absolute())
    if not path.exists():
        return
    file = read_history(path)
    # It is read and never replaced: the run writes its history to the default place.
    is_foreign = file.is_returnn or (parent != own and (parent / PARAMS_FILE).exists())
    if is_resumed:
        if is_foreign:
            kind = "a learning_rate_file of RETURNN" if file.is_returnn else "that of another run"
            text = f"{path} is {kind}, which gives rates to a new training only"
            raise FieldAdvice(f"{text}: leave out {{history_file}}", "history_file")
        progress.history = progress.history.edited(file, progress.epoch)
        return
    if is_foreign:
        params.history_file = None
        run.output.history_file = None if directory is None else directory.history_file
    progress.history = file.rates_only()
    log.info("rates of %d epochs are those in %s", len(progress.history), path)
