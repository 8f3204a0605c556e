"""Params of a run: the trainer's own copy, the form that is stored, and the differences of two stored ones."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, TypeVar

import keras

from tfaip.components.loading import import_root
from tfaip.components.scenario import ScenarioComponents
from tfaip.params.codec import encode
from tfaip.params.stored import params_text, save_params
from tfaip.params.tree import copy_tree, share_tree
from tfaip.trainer.params import TrainerParams
from tfaip.trainer.run.directory import RunDirectory
from tfaip.trainer.run.permission import Permission, record_permission
from tfaip.trainer.run.stagedirectories import StageDirectories

_DIRECTORY_FIELDS = ("output_dir", "overwrite")

Params = TrainerParams[Any, Any]
P = TypeVar("P", bound=TrainerParams)


def copy_for_run(params: P) -> P:
    """Return a copy that a run may complete with what it finds out; the caller's object stays as it is.

    Nodes, lists, tuples and dicts are copied, other values are shared: they may be large. So is
    `params.scenario` with everything below it, since the scenario was built from this object.
    """
    copies: dict[int, Any] = {}
    try:
        share_tree(params.scenario, copies)
        return copy_tree(params, copies)
    except RecursionError:
        return params  # it contains itself: the check of the params names the field


def stored_params(params: Params) -> dict[str, Any]:
    """Return the params in the form that a checkpoint stores, without those that name the directory of the run."""
    directory = None if params.output_dir is None else Path(params.output_dir)
    encoded = encode(_without_cluster(params), directory)
    # The name of the scenario's class is in the params file, for programs that start from it.
    encoded["scenario"] = {name: value for name, value in encoded["scenario"].items() if name != "scenario_id"}
    return {name: value for name, value in encoded.items() if name not in _DIRECTORY_FIELDS}


def store_params(
    directory: RunDirectory,
    params: Params,
    scenario: type[ScenarioComponents[Any, Any]],
    permission: Permission | None,
    is_resumed: bool,
    repeated: str | None = None,
) -> None:
    """Store the params of a run, with what is needed to find its scenario again.

    Args:
        directory: the directory of the run, locked.
        params: the params of the run.
        scenario: class of the scenario.
        permission: what the user has typed for the run, to be recorded; None: nothing is recorded.
        is_resumed: the directory has params of the same run already.
        repeated: the stage from which on all are run again; the intention is stored together with the params.
    """
    params.overwrite = False  # a permission for once: stored params must not repeat it
    params.keras_backend = keras.backend.backend()
    params.import_root = import_root(scenario)
    stored = _without_cluster(params)
    stored.scenario = copy.copy(params.scenario)
    stored.scenario.scenario_id = scenario.scenario_id()
    if permission is not None:
        record_permission(directory.params_file, stored, scenario, permission, is_resumed)
    if repeated is not None:
        text = params_text(stored, directory.root)
        StageDirectories(directory.root, directory.stages).intend_repetition(repeated, directory.params_file, text)
    save_params(directory.params_file, stored)


def _without_cluster(params: Params) -> Params:
    """Return a copy without the processes of a cluster, which may be others whenever the run is started."""
    stored = copy.copy(params)
    stored.device = params.device.without_cluster()
    return stored
