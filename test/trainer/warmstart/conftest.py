"""A trained run to start from, and the lines that are logged."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.runs import make_once
from test.trainer.net import net_params, train


@pytest.fixture(scope="session")
def averaged_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two epochs with averaged weights; every test reads it, none writes to it."""

    def make(path: Path) -> None:
        train(net_params(path / "run", calc_ema=0.5, random_seed=1))

    return make_once(tmp_path_factory, "averaged_net", make) / "run"


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the toolkit logs during the test, with its level if that is not info."""
    lines: list[str] = []

    class Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            level = "" if record.levelno == logging.INFO else f"{record.levelname.lower()}: "
            lines.append(level + record.getMessage())

    logger, collector = logging.getLogger("tfaip"), Collector()
    level = logger.level
    logger.addHandler(collector)
    logger.setLevel(logging.INFO)
    yield lines
    logger.setLevel(level)
    logger.removeHandler(collector)
