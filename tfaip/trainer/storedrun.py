"""Params and trainers of runs that were stored, for programs in Python; commands ask for more permissions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tfaip.components.loading import load_trusted_scenario, scenario_id_of
from tfaip.params.stored import PACKAGE_KEY, VERSION_KEY, from_dict, load_params
from tfaip.trainer.run.directory import RunDirectory, find_run
from tfaip.trainer.runparams import Params
from tfaip.util.reading import read_json


def params_of_run(values: Mapping[str, Any]) -> Params:
    """Return trainer params from the content of a `trainer_params.json`.

    The class is that of the scenario which the content names (`scenario.scenario_id`). Its package, and
    those of the classes in its default params, are trusted.

    Raises:
        UsageError: if it names no scenario, or anything of another package.
    """
    scenario: Any = load_trusted_scenario(scenario_id_of(values, "the dict"))
    fields = {name: value for name, value in values.items() if name not in (VERSION_KEY, PACKAGE_KEY)}
    params: Params = from_dict(scenario.trainer_params_cls(), fields, trusted=scenario.declared_packages())
    return params


def restored_trainer(path: Path, **arguments: Any) -> Any:
    """Return the trainer that continues a run; see `Trainer.restore_trainer`."""
    root, checkpoint = find_run(path)
    file = RunDirectory(root).params_file
    scenario: Any = load_trusted_scenario(scenario_id_of(read_json(file), file))
    params = load_params(file, scenario.trainer_params_cls(), trusted=scenario.declared_packages())
    params.output_dir = str(root)  # it may have been moved
    return scenario.create_trainer(params, restore=True, checkpoint=checkpoint, **arguments)
