"""Trial of a run (`--dry_run`): its params, the checks of what it leaves out, and the message at its end."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import keras

from tfaip.trainer.history import read_history_file
from tfaip.trainer.params import ProgressBarMode, TrainerParams
from tfaip.trainer.runparams import Params
from tfaip.trainer.stages.params import MAIN
from tfaip.trainer.stages.program import PlannedStage, Preview, StageKind, StageProgram
from tfaip.util.logging import logger

P = TypeVar("P", bound=TrainerParams)

log = logger(__name__)


def check_left_out(params: Params) -> None:
    """Raise a `UsageError` unless the history file, which a trial has not, can be read."""
    if params.history_file is not None and Path(params.history_file).exists():
        read_history_file(params.history_file)


def trial_params(params: P, directory: Path) -> P:
    """Return params of a trial, which writes to another directory."""
    trial = copy.deepcopy(params)
    trial.output_dir, trial.write_checkpoints, trial.history_file = str(directory), True, None
    trial.progress_bar_mode, trial.profile_steps = ProgressBarMode.PLAIN, [1, 1]
    return trial


def shortened(preview: Preview, params: Params) -> StageProgram:
    """Yield the stages of a preview, each training with one epoch; the plain params if no other one trains."""
    stages = list(preview.stages)
    if not any(stage.kind is StageKind.TRAIN for stage in stages):
        stages.append(PlannedStage(MAIN, StageKind.TRAIN, len(stages), 1, 1, params))
    epoch = 1
    for stage in stages:
        count = 1 if stage.kind is StageKind.TRAIN else 0
        yield replace(stage, first_epoch=epoch, last_epoch=epoch + count - 1)
        epoch += count


def log_trial(params: Params, scenario_id: str, preview: Preview) -> None:
    """Log the stages of a run whose trial has succeeded."""
    stages = ""
    if preview.has_stages:
        known = "" if preview.is_complete else "known "
        stages = f" of each of {len(preview.stages)} {known}stages"
        preview.log()
    target = "without an output directory" if params.output_dir is None else f"into {params.output_dir}"
    backend = keras.backend.backend()
    log.info("dry run: would train %s for %d epochs %s, on keras/%s", scenario_id, params.epochs, target, backend)
    log.info("one batch%s went through training, validation, export and resume; nothing was kept", stages)
