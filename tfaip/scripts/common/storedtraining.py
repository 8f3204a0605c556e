"""Trainer params that were stored with a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tfaip.backend.environment import BACKENDS, select_backend, set_default
from tfaip.util.logging import logger
from tfaip.util.reading import read_json
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.trainer.run.permission import Permission


class StoredTraining(NamedTuple):
    """A training that was stored.

    Args:
        scenario: class that the params name.
        params: the trainer params.
        permission: what the file may name, besides tfaip and the scenario's own package.
    """

    scenario: Any
    params: Any
    permission: Permission


def load_trainer_params(path: Path, trusted: Sequence[str]) -> StoredTraining:
    """Load the params of a run; imports no backend.

    Args:
        path: a `trainer_params.json`.
        trusted: packages of `--trust`, beside those that were permitted for the run.

    Raises:
        UsageError: if the file cannot be read, or names something that it must not.
    """
    from tfaip.components.loading import load_trusted_scenario, scenario_id_of
    from tfaip.params.stored import load_params
    from tfaip.trainer.run.permission import read_permission

    permission = read_permission(path).and_trusted(trusted)
    content = read_json(path)
    # Only the backend of the run continues it bit for bit. Code of the scenario may import Keras.
    backend = content.get("keras_backend")
    if isinstance(backend, str) and backend in BACKENDS:
        set_default("KERAS_BACKEND", backend)
    select_backend()
    scenario_id = scenario_id_of(content, path)
    scenario = load_trusted_scenario(scenario_id, content.get("import_root"), permission.import_root)
    packages = [*scenario.declared_packages(), *permission.packages]
    params = load_params(path, scenario.trainer_params_cls(), trusted=packages)
    alone = params.device.without_cluster()
    if alone != params.device:  # the author of a file must not choose a host to connect to
        logger(__name__).info(
            "cluster settings in %s are ignored (coordinator %s, %s processes): give them with --device.* or --config",
            path,
            shorten(params.device.coordinator),
            params.device.num_processes,
        )
        params.device = alone
    return StoredTraining(scenario, params, permission)
