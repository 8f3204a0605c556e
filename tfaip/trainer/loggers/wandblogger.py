"""Weights & Biases: params and logger (extra `wandb`)."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Any, Self

from tfaip.params import option
from tfaip.trainer.loggers.logger import LoggedRun, Logger, LoggerParams, RunStatus, environment, import_package
from tfaip.util.files import remove_directory
from tfaip.util.typing import Logs

_ENVIRONMENT = {"WANDB_ERROR_REPORTING": "false"}
# Only params and values are logged: nothing of the console, the code, the command line or the machine.
_SETTINGS = {
    "console": "off",
    "silent": True,
    "disable_code": True,
    "disable_git": True,
    "save_code": False,
    "x_disable_meta": True,
    "x_disable_stats": True,
    "x_disable_machine_info": True,
    "x_save_requirements": False,
    # Seconds; what was not sent then is still in the run directory.
    "init_timeout": 30.0,
    "finish_timeout": 60.0,
    "finish_timeout_raises": True,
}


class WandBMode(StrEnum):
    """Place where W&B keeps a run."""

    OFFLINE = "offline"
    ONLINE = "online"


class WandBLoggerParams(LoggerParams):
    """Runs of Weights & Biases; no models or other files are uploaded."""

    mode: WandBMode = option(
        WandBMode.OFFLINE,
        "offline: loggers/wandb in output_dir, for 'wandb sync'; online: send to the server of 'wandb login'",
    )
    project: str | None = option(None, "Name of the project (None: the scenario)")
    entity: str | None = option(None, "User or team that the project belongs to (None: the default of the account)")
    run_name: str | None = option(None, "Name of the run (None: that of output_dir)")
    tags: list[str] = option([], "Tags of the run")

    def create(self) -> Logger:
        return WandBLogger(self, import_package("wandb", "W&B", _ENVIRONMENT))

    def destination(self) -> str | None:
        return None if self.mode is WandBMode.OFFLINE else f"W&B, {self.entity or 'your account'}"

    def local(self) -> Self:
        return replace(self, mode=WandBMode.OFFLINE)


class WandBLogger(Logger):
    """Runs of Weights & Biases.

    Offline, each start of the training writes all epochs so far into a new directory, from the history of the run:
    what a killed process has written may lack its end. It replaces those of earlier starts that were not synced.
    """

    def __init__(self, params: WandBLoggerParams, wandb: Any) -> None:
        self._params = params
        self._wandb = wandb
        self._run: Any = None

    def begin(self, run: LoggedRun) -> int:
        params, directory = self._params, run.directory / "wandb"
        is_online = params.mode is WandBMode.ONLINE
        directory.mkdir(parents=True, exist_ok=True)
        variables = {f"WANDB_{name}_DIR": str(directory / name.lower()) for name in ("CACHE", "DATA", "ARTIFACT")}
        if not is_online:  # else the settings of the user's account are read from it
            variables["WANDB_CONFIG_DIR"] = str(directory / "config")
        with environment({**_ENVIRONMENT, **variables}):
            if is_online and not self._wandb.login(prompt=False):
                raise RuntimeError("no API key: call 'wandb login', or set WANDB_API_KEY")
            if not is_online:
                _remove_unsynced(run)
            # A run of its own, beside one that the user may have begun.
            self._run = self._wandb.init(
                id=run.id,
                resume="allow" if is_online else None,
                mode=params.mode.value,
                dir=run.directory,
                project=params.project or run.scenario,
                entity=params.entity,
                name=params.run_name or run.name,
                tags=params.tags,
                config=dict(run.params),
                reinit="create_new",
                settings=self._wandb.Settings(**_SETTINGS),
            )
        return max(int(self._run.starting_step) - 1, 0)

    def log(self, epoch: int, values: Logs, time_s: float) -> None:
        self._run.log({**values, "epoch": epoch}, step=epoch, commit=True)

    def finish(self, status: RunStatus) -> None:
        if self._run is not None:
            self._run.summary["status"] = status.value
            self._run.finish(exit_code=0 if status is RunStatus.FINISHED else 1)


def _remove_unsynced(run: LoggedRun) -> None:
    for directory in (run.directory / "wandb").glob(f"offline-run-*-{run.id}"):
        if not directory.is_symlink() and not any(directory.glob("*.synced")):
            remove_directory(directory, run.directory, [f"run-{run.id}.wandb"])
