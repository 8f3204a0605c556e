"""Trainer params that were stored with a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tfaip.errors import UsageError
from tfaip.params.trust import check_packages
from tfaip.util.backend import BACKENDS, select_backend
from tfaip.util.logging import logger
from tfaip.util.reading import read_json
from tfaip.util.text import shorten

if TYPE_CHECKING:
    from tfaip.trainer.permission import Permission


def take_trusted(flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split `--trust PKG [PKG ...]` off the flags, which may come several times.

    Returns:
        the packages and the other flags.

    Raises:
        UsageError: it names no package.
    """
    trusted: list[str] = []
    while True:
        words, flags = take_words("--trust", "the name of a package", flags)
        if not words:
            return check_packages(trusted), list(flags)
        trusted += words


def take_words(flag: str, what: str, flags: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split a flag off that decides which other flags there are.

    Args:
        flag: with dashes.
        what: it needs, for the message.
        flags: the command line.

    Returns:
        the words behind the flag (none: it is not there), and the other flags.

    Raises:
        UsageError: there is no word behind it.
    """
    flags = [word for given in flags for word in (given.split("=", 1) if given.startswith(f"{flag}=") else [given])]
    if flag not in flags:
        return [], flags
    start = flags.index(flag)
    end = next((i for i in range(start + 1, len(flags)) if flags[i].startswith("-")), len(flags))
    if end == start + 1:
        raise UsageError(f"{flag} needs {what}")
    return flags[start + 1 : end], [*flags[:start], *flags[end:]]


def load_trainer_params(path: Path, permission: Permission) -> tuple[Any, Any]:
    """The scenario class that stored trainer params name, and the params.

    Args:
        path: a `trainer_params.json`.
        permission: what the file may name, besides tfaip and the scenario's own package.

    Raises:
        UsageError: the file cannot be read, or names something that it must not.
    """
    from tfaip.params.serialization import load_params
    from tfaip.scenario.loading import load_trusted_scenario

    content = read_json(path)
    # Only the backend that it was trained on continues a run bit for bit. Scenario code may import Keras.
    backend = content.get("keras_backend")
    if isinstance(backend, str) and backend in BACKENDS:
        os.environ.setdefault("KERAS_BACKEND", backend)
    select_backend()
    scenario = load_trusted_scenario(_scenario_id(path, content), content.get("import_root"), permission.import_root)
    package = scenario.__module__.split(".")[0]
    params = load_params(path, scenario.trainer_params_cls(), trusted=[package, *permission.packages])
    _leave_out_cluster(params, path)
    return scenario, params


def _leave_out_cluster(params: Any, path: Path) -> None:
    """Forget the cluster that a file names: whoever wrote it must not choose the host that a process connects to."""
    alone = params.device.without_cluster()
    if alone != params.device:
        logger(__name__).info(
            "cluster settings in %s are left out (coordinator %s, %s processes): give them with --device.* or --config",
            path,
            shorten(params.device.coordinator),
            params.device.num_processes,
        )
        params.device = alone


def _scenario_id(path: Path, content: dict[str, Any]) -> str:
    scenario = content.get("scenario")
    scenario_id = scenario.get("scenario_id") if isinstance(scenario, dict) else None
    if not isinstance(scenario_id, str):
        raise UsageError(f"{path} holds no trainer params: it names no scenario (scenario.scenario_id)")
    return scenario_id
