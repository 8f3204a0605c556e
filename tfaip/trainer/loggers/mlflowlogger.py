"""MLflow: params and logger (extra `mlflow`)."""

from __future__ import annotations

import errno
import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from tfaip.params import option
from tfaip.trainer.loggers.logger import LoggedRun, Logger, LoggerParams, RunStatus, environment, import_package
from tfaip.util.files import remove_temporaries
from tfaip.util.paths import TEMPORARY_PREFIX
from tfaip.util.typing import Logs

# The tag by which a resumed run is found again.
_RUN_TAG = "tfaip.run"
# Logged after all other values of an epoch: its last step is the last epoch of the logged run.
_EPOCH = "epoch"
_DATABASE = "mlflow.db"
_STATUS = {RunStatus.FINISHED: "FINISHED", RunStatus.STOPPED: "KILLED", RunStatus.FAILED: "FAILED"}
# Limits of the service.
_MOST_METRICS, _MOST_PARAMS, _KEY_LENGTH, _VALUE_LENGTH = 1000, 100, 250, 6000
_NOT_IN_KEYS = re.compile(r"[^\w\-. :/]")
# No statistics of the use are sent, and no file is written to the home directory. A server that is away is asked again
# after the next epoch, not within the call.
_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}


def _expected_uri(uri: str) -> str | None:
    try:
        parts = urlsplit(uri)
        has_secret = parts.username is not None or parts.password is not None
        is_valid = (parts.scheme in ("http", "https") and bool(parts.hostname)) or uri.startswith("sqlite:///")
    except ValueError:
        has_secret = is_valid = False
    if has_secret:
        return "an address without a password: set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    return None if is_valid else "http://host:port, https://host or sqlite:///file"


class MLflowLoggerParams(LoggerParams):
    """Runs of MLflow; no models or other files are uploaded."""

    tracking_uri: str | None = option(
        None,
        "Address of the server, e.g. http://host:5000, or sqlite:///file (None: loggers/mlflow.db in output_dir)",
        text=_expected_uri,
    )
    experiment: str | None = option(None, "Name of the experiment (None: the scenario)")
    run_name: str | None = option(None, "Name of the run (None: that of output_dir)")
    tags: dict[str, str] = option({}, "Tags of the run, e.g. data=v2")

    def create(self) -> Logger:
        return MLflowLogger(self, import_package("mlflow", "MLflow", _ENVIRONMENT))

    def destination(self) -> str | None:
        return self.tracking_uri

    def local(self) -> Self:
        return replace(self, tracking_uri=None)


class MLflowLogger(Logger):
    """Runs of MLflow, by its client: nothing of the process is changed that `mlflow` functions of a user see.

    The store in the run directory is SQLite, the default of MLflow; its store of plain files is not developed further
    and needs a switch.
    """

    def __init__(self, params: MLflowLoggerParams, mlflow: Any) -> None:
        self._params = params
        self._mlflow = mlflow
        self._entities = mlflow.entities
        self._client: Any = None
        self._id: str | None = None

    def begin(self, run: LoggedRun) -> int:
        with environment(_ENVIRONMENT):
            uri, artifacts = self._params.tracking_uri, None
            if uri is None:
                root = run.directory.resolve()
                # Artifacts are those of users who add some to the run later; none are written here.
                uri, artifacts = self._local_store(root), (root / "artifacts").as_uri()
            self._client = client = self._mlflow.MlflowClient(tracking_uri=uri)
            name = self._params.experiment or run.scenario
            experiment = client.get_experiment_by_name(name)
            number = client.create_experiment(name, artifacts) if experiment is None else experiment.experiment_id
            found = client.search_runs([number], f"tags.`{_RUN_TAG}` = '{run.id}'", max_results=1)
            if found:
                self._id = found[0].info.run_id
                client.update_run(self._id, status="RUNNING")
                self._set_params(run.params, found[0].data.params)
                steps = [metric.step for metric in client.get_metric_history(self._id, _EPOCH)]
                return max(steps, default=0)
            tags = {**self._params.tags, _RUN_TAG: run.id}
            created = client.create_run(number, tags=tags, run_name=self._params.run_name or run.name)
            self._id = created.info.run_id
            self._set_params(run.params, {})
            return 0

    def _local_store(self, directory: Path) -> str:
        """Return the address of the database in a directory; a new one is complete before it has its name."""
        database, temporary = directory / _DATABASE, directory / f"{TEMPORARY_PREFIX}{_DATABASE}"
        if database.is_dir():  # SQLite would try to open it for minutes
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(database))
        if not database.exists():
            remove_temporaries(directory, lambda name: name.startswith(_DATABASE))
            self._mlflow.MlflowClient(tracking_uri=f"sqlite:///{temporary}").search_experiments(max_results=1)
            os.replace(temporary, database)
        return f"sqlite:///{database}"

    def _set_params(self, params: Mapping[str, Any], known: Mapping[str, str]) -> None:
        """Set params; a service that never changes a param gets changes as tags."""
        texts = {_key(flag): str(value)[:_VALUE_LENGTH] for flag, value in params.items()}
        new = [self._entities.Param(flag, text) for flag, text in texts.items() if flag not in known]
        changed = [self._entities.RunTag(flag, text) for flag, text in texts.items() if known.get(flag, text) != text]
        for part in _parts(new, _MOST_PARAMS):
            self._client.log_batch(self._id, params=part)
        for part in _parts(changed, _MOST_PARAMS):
            self._client.log_batch(self._id, tags=part)

    def log(self, epoch: int, values: Logs, time_s: float) -> None:
        # The same time if the call is repeated: the service keeps equal entries once.
        entries, at, metric = {**values, _EPOCH: epoch}, int(time_s * 1000), self._entities.Metric
        metrics = [metric(_key(name), value, at, epoch) for name, value in entries.items()]
        with environment(_ENVIRONMENT):
            for part in _parts(metrics, _MOST_METRICS):
                self._client.log_batch(self._id, metrics=part)

    def finish(self, status: RunStatus) -> None:
        if self._id is not None:
            with environment(_ENVIRONMENT):
                self._client.set_terminated(self._id, _STATUS[status])


def _parts(items: Sequence[Any], size: int) -> list[list[Any]]:
    return [list(items[first : first + size]) for first in range(0, len(items), size)]


def _key(name: str) -> str:
    """Return a name as the service takes it: few signs, and as a path without empty parts."""
    key = _NOT_IN_KEYS.sub("_", name)[:_KEY_LENGTH]
    is_path = posixpath.normpath(key) == key and not key.startswith(("/", "..")) and key != "."
    return key if is_path else key.replace("/", "_").replace(".", "_")
