"""Export of the models of a stage: their writer, and the check of the export before the first batch."""

from __future__ import annotations

from tfaip.export.formats import Advice
from tfaip.export.modelwriting import ModelDirectoryWriter
from tfaip.export.trainingdata import TRAINING_DATA_FILE, TrainingDataParams
from tfaip.params.tree import flag_of
from tfaip.trainer.datasetup import Scenario, first_batch
from tfaip.trainer.runparams import Params
from tfaip.trainer.setup import TrainingSetup
from tfaip.util.logging import logger, timed

log = logger(__name__)


def prepare_export(setup: TrainingSetup, before: ModelDirectoryWriter | None) -> None:
    """Let the output of a run write the models of a stage, and check that they can be exported.

    What cannot be exported is known before the first epoch instead of after the last. The check may only begin if the
    next epoch exports its model in any case; of a training that is finished it belongs to the first export.

    Args:
        setup: the stage.
        before: writer of the same model in the stage before; None: there is none.
    """
    params, output = setup.params, setup.output
    if output.directory is None:
        return
    output.best, output.final = params.export_best, params.export_final
    output.models = models = _create_writer(params, setup.scenario)
    if models is None or models.formats is None or params.skip_model_load_test:
        return
    if before is not None and before.has_checked(models):
        return
    inputs = first_batch(setup.sample_data).inputs
    if setup.is_finished():
        models.formats.check_with_write(inputs)
        return
    check = models.formats.begin_check if params.export_best and _is_best_next(setup) else models.formats.check
    with timed(log, "exporting and loading the model for a check"):
        check(inputs)


def _create_writer(params: Params, scenario: Scenario) -> ModelDirectoryWriter | None:
    """Return the writer of models; None: none will be exported."""
    if not params.export_best and not params.export_final:
        return None
    training_data = TrainingDataParams(params.gen, params.random_seed or 0)
    return ModelDirectoryWriter(scenario, {TRAINING_DATA_FILE: training_data}, export_advice(params))


def export_advice(params: Params) -> Advice:
    """Return the flags that leave out what failed in an export."""
    export_flag = flag_of(params, params.flag_root, "scenario.export_{}")
    check_flag = flag_of(params, params.flag_root, "skip_model_load_test")
    return Advice(f"switch it off with {export_flag} False", f"skip this check with {check_flag} True")


def _is_best_next(setup: TrainingSetup) -> bool:
    """Return True if the next epoch will be the first one with a value that tells the best model."""
    progress, best = setup.state.progress, setup.best
    is_measured = setup.evaluation.val is None or setup.evaluation.validates_after(progress.epoch + 1)
    return is_measured and not best.follows_lav and best.epoch(progress.history) is None
