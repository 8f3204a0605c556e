"""The filter of TensorFlow's warnings holds back those of directories alone; for the server see test/trainer."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from tensorboard.plugins.base_plugin import TBContext

from tfaip.events.plugin import QuietProjector


@pytest.fixture
def log() -> Iterator[logging.Logger]:
    log = logging.getLogger("tensorflow")
    before = log.filters[:]
    for _ in range(2):
        QuietProjector().load(TBContext())
    assert len(log.filters) == len(before) + 1
    yield log
    log.filters[:] = before


def test_only_warnings_of_directories_are_held_back(
    log: logging.Logger, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run" / "checkpoint").mkdir(parents=True)
    (tmp_path / "checkpoint").touch()
    for place in (tmp_path / "run", tmp_path):
        log.warning("%s: %s", "FailedPreconditionError", f"{place}/checkpoint; Is a directory")
        log.warning("%s: Checkpoint ignored", place / "checkpoint")
    log.warning("anything else")
    assert caplog.messages == [
        f"FailedPreconditionError: {tmp_path}/checkpoint; Is a directory",
        f"{tmp_path}/checkpoint: Checkpoint ignored",
        "anything else",
    ]
