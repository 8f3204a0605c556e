"""The interface of loggers and of their params; needs no backend."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from tfaip.params import ParamsBase
from tfaip.params.limits import FieldAdvice
from tfaip.util.logging import logger as log_of, timed
from tfaip.util.text import shorten, shorten_text
from tfaip.util.typing import Logs

log = log_of(__name__)


class RunStatus(StrEnum):
    """End of a training."""

    FINISHED = "finished"
    STOPPED = "stopped"  # by a signal; it can be resumed
    FAILED = "failed"


@dataclass(frozen=True)
class LoggedRun:
    """A run as its loggers know it.

    Args:
        id: the same whenever the run is resumed, and of no other run: 16 hexadecimal digits.
        name: that of its directory.
        scenario: name of the class of its scenario.
        params: all params, by their flags without dashes: numbers, texts, None, and lists and dicts of such.
        directory: where loggers may write.
    """

    id: str
    name: str
    scenario: str
    params: Mapping[str, Any]
    directory: Path


class Logger(ABC):
    """Copy of the values of a run in a tracking service.

    All methods are called in one thread beside the training. Any exception becomes a warning; what failed is
    repeated with the next epoch, `begin` included if it has failed.
    """

    @abstractmethod
    def begin(self, run: LoggedRun) -> int:
        """Create the logged run, or continue the one of this id.

        Returns:
            The last epoch that it has, 0 if it has none. Epochs up to this one are not logged again.
        """

    @abstractmethod
    def log(self, epoch: int, values: Logs, time_s: float) -> None:
        """Log an epoch completely or not at all.

        Args:
            epoch: from 1, ascending.
            values: as in `history.json`, and the learning rate as `lr`.
            time_s: end of the epoch in seconds since 1970, the same if the call is repeated.
        """

    @abstractmethod
    def finish(self, status: RunStatus) -> None:
        """Close the logged run; called once, also if `begin` has failed."""


class LoggerParams(ParamsBase):
    """Params of a logger, which derive from this class."""

    def create(self) -> Logger:
        """Return the logger.

        Raises:
            UsageError: if its package is not installed.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement create()")

    def destination(self) -> str | None:
        """Return the place outside of the run directory that the values are sent to; None: there is none.

        A stored file cannot choose it: it counts only if it was typed for the run.
        """
        return None

    def local(self) -> Self:
        """Return a copy that logs within the run directory."""
        return self


def permitted_loggers(loggers: Sequence[LoggerParams], permitted: Sequence[str], flag: str) -> list[LoggerParams]:
    """Return the loggers of a file; those log within the run directory whose destination was not typed.

    Args:
        loggers: params that were read from the file.
        permitted: the destinations that were typed for the run.
        flag: of the list.
    """
    allowed = []
    for index, params in enumerate(loggers):
        destination = params.destination()
        if destination is not None and destination not in permitted:
            log.warning(
                "%s.%d logs within the run directory: %s was not typed for this run; give it again by flag",
                flag,
                index,
                shorten(destination, 160),
            )
            params = params.local()
        allowed.append(params)
    return allowed


def import_package(package: str, title: str, variables: Mapping[str, str]) -> Any:
    """Import a package whose extra has the same name; not in a thread, where other imports might meet it.

    Args:
        package: its name.
        title: that of the service.
        variables: of the environment, see `environment`.

    Raises:
        UsageError: if it is not installed, or lacks a package that it needs.
    """
    if find_spec(package) is None:
        raise FieldAdvice(
            f"logging to {title} needs {package}, which is not installed: pip install 'tfaip[{package}]', or leave it "
            "out of {loggers}",
            "loggers",
        )
    try:
        with environment(variables), timed(log, f"importing {package}"):
            return import_module(package)
    except ImportError as error:
        raise FieldAdvice(
            f"logging to {title} needs {package}, which cannot be imported ({shorten_text(str(error), 160)}): install "
            f"it again with pip install 'tfaip[{package}]', or leave it out of {{loggers}}",
            "loggers",
        ) from error


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables in the block, except for those that the user has set."""
    added = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
