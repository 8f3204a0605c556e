"""Trial of a run (`--dry_run`): its params, the checks of what it leaves out, and the message at its end."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import keras

from tfaip.trainer.historyreading import read_history_file
from tfaip.trainer.params import ProgressBarMode, TrainerParams
from tfaip.trainer.runparams import Params
from tfaip.trainer.stagerunner.preview import ExpectedWeights, log_plan
from tfaip.trainer.stages.planned import PlannedStage
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


def log_trial(
    params: Params, scenario_id: str, plan: Sequence[PlannedStage], expected: Mapping[str, ExpectedWeights]
) -> None:
    """Log the plan of a run whose trial has succeeded.

    Args:
        params: the params of the run.
        scenario_id: name of the scenario.
        plan: the stages of the run.
        expected: the weights that they begin with, by name of the stage.
    """
    stages = ""
    if len(plan) > 1:
        stages = f" of each of {len(plan)} stages"
        log_plan(plan, expected)
    target = "without an output directory" if params.output_dir is None else f"into {params.output_dir}"
    backend = keras.backend.backend()
    log.info("dry run: would train %s for %d epochs %s, on keras/%s", scenario_id, params.epochs, target, backend)
    log.info("one batch%s went through training, validation, export and resume; nothing was kept", stages)
