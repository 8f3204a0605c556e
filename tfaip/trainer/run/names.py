"""Names of what a run writes and logs, and the check of those that params choose; needs no backend."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tfaip.errors import UsageError
from tfaip.params.fields import FieldError
from tfaip.util.files import name_problem, path_problem

# Names of logged values: the prefix tells on which data a value was measured.
# The loss under the name that clients have monitored for years.
EPOCH_MEAN = "loss/mean_epoch"
RATE = "lr"
SCHEDULED_PREFIX = "schedule/"
VALIDATION_PREFIX = "val_"
# `lav_l0_acc`: directory of its events, and name of the value in it.
LAV_NAME = re.compile(r"(lav_l\d+)_(.+)")

# Directories of TensorBoard events.
TRAIN = "train"
VALIDATION = "validation"
UPDATES = "updates"
# Within one: written by TensorBoard's profiler, another library.
PLUGINS_DIR = "plugins"

PARAMS_FILE = "trainer_params.json"
HISTORY_FILE = "history.json"
LOG_FILE = "train.log"
# TensorBoard takes each directory with such a file for a run, and what is below it for its values.
HPARAMS_FILE = "events.out.tfevents.hparams"
EXPORT_DIR = "export"
CHECKPOINT_DIR = "checkpoint"
BEST_DIR = "best"
STAGES_DIR = "stages"
# Within the directory of a stage.
STAGE_FILE = "stage.json"
DONE_FILE = "DONE"
STAGE_STATE_DIR = "state"

CHECKPOINT_NAME = re.compile(r"epoch_(\d{4,})(?:_step_(\d{6,}))?", re.ASCII)
EVENTS_NAME = re.compile(rf"{TRAIN}|{VALIDATION}|{UPDATES}|lav_l\d+", re.ASCII)
EVENT_FILES = "events.out.tfevents."  # how the names of its files begin
# Names of files, other directories and checkpoints; some file systems do not distinguish Best from best.
_FIXED = (PARAMS_FILE, HISTORY_FILE, LOG_FILE, HPARAMS_FILE, "manifest.json", EXPORT_DIR, STAGES_DIR)
_RESERVED = re.compile(
    "|".join([*map(re.escape, _FIXED), EVENTS_NAME.pattern, CHECKPOINT_NAME.pattern]), re.ASCII | re.IGNORECASE
)
_EPOCH = re.compile(r"(?:^|/)[^/]*\{epoch(?::[^{}]*)?\}.*")


def is_id_file(path: Path) -> bool:
    """Return True for a file in which a callback keeps the id of the run in a tracking service."""
    return path.suffix == ".id" and path.is_file() and not path.is_symlink()


def lav_events(index: int) -> str:
    """Return the events directory of the LAV generator `index` (from 0); its values have this prefix, and `_`."""
    return f"lav_l{index}"


def split_name(name: str) -> tuple[str, str]:
    """Return events directory and rest of the name of a logged value: `val_loss` -> `validation`, `loss`."""
    if name.startswith(VALIDATION_PREFIX):
        return VALIDATION, name.removeprefix(VALIDATION_PREFIX)
    lav = LAV_NAME.fullmatch(name)
    return (lav[1], lav[2]) if lav else (TRAIN, name)


def measured_name(name: str, logged: Sequence[str], logs_lav: bool) -> str:
    """Return the name of a value in the log: `val_cer` is `lav_l0_cer` if the validation has no value of that name."""
    if not logs_lav or not name.startswith(VALIDATION_PREFIX) or name in logged:
        return name
    return f"{lav_events(0)}_{name.removeprefix(VALIDATION_PREFIX)}"


def check_logged(values: Mapping[str, object]) -> None:
    """Raise unless each loss and metric of the training is one number, under a name that nothing else is logged by."""
    for name, value in values.items():
        is_taken = name in (RATE, EPOCH_MEAN) or name.startswith(SCHEDULED_PREFIX) or split_name(name)[0] != TRAIN
        if is_taken or name.split() != [name]:
            raise UsageError(f"the loss or metric {name!r} has a name of other values, or blanks: give it another name")
        if isinstance(value, Mapping | list | tuple) or tuple(getattr(value, "shape", ())):
            raise UsageError(f"the metric {name!r} gives several values, expected one: average them, or use several")


def checkpoint_directory(checkpoint_sub_dir: str) -> str:
    """Return the name of the directory of the checkpoints.

    A part with `{epoch}` (`checkpoint/checkpoint_{epoch:04d}`) asks for a directory per epoch, which checkpoints have
    anyway (`epoch_0007`): it is left out. If nothing is left the default is taken.
    """
    name, count = _EPOCH.subn("", checkpoint_sub_dir)
    return CHECKPOINT_DIR if count and not name else name


def check_directory_names(checkpoint_sub_dir: str, best_model_name: str, params_copy: str = "") -> None:
    """Raise unless they name directories within the run, and a file if there is a copy, which hold nothing else."""
    taken = set[str]()
    for field, value, name, kind in [
        ("early_stopping.best_model_name", best_model_name, best_model_name, "directory"),
        ("checkpoint_sub_dir", checkpoint_sub_dir, checkpoint_directory(str(checkpoint_sub_dir)), "directory"),
        *([("scenario.trainer_params_filename", params_copy, params_copy, "file")] if params_copy else []),
    ]:
        problem = name_problem(name)
        if problem is None and not {"{", "}"}.isdisjoint(name):
            problem = "has braces"
        if problem is None and (name.casefold() in taken or _RESERVED.fullmatch(name)):
            problem = "is the name of something else in the run"
        if problem is not None:
            raise FieldError(field, value, f"the name of a {kind} of its own in output_dir (it {problem})")
        taken.add(name.casefold())


def expected_directory(path: str) -> str | None:
    """Return in words what is expected instead of a path, or None if a directory can have it."""
    problem = path_problem(path)
    return None if problem is None else f"a directory (it {problem})"


def check_history_file(history_file: str | None, output_dir: str | None) -> None:
    """Raise unless the history can be kept in a file that the run writes for nothing else."""
    if history_file is None:
        return
    problem = path_problem(history_file)
    if problem is None:
        file, root = Path(os.path.realpath(history_file)), os.path.realpath(output_dir or "")
        parts = file.relative_to(root).parts if output_dir is not None and file.is_relative_to(root) else ()
        if len(parts) > 1 or (parts and parts[0] != HISTORY_FILE and _RESERVED.fullmatch(parts[0])):
            problem = "is in the place of something else in the run"
    if problem is not None:
        raise FieldError("history_file", history_file, f"a file of its own (it {problem})")
