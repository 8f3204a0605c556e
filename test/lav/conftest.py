"""The model that the tests load."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from test.support.trained import trained_tutorial
from tfaip.util.logging import setup_console


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tutorial, trained on this backend; not to be changed."""
    return trained_tutorial(tmp_path_factory)


@pytest.fixture
def console() -> Iterator[None]:
    """What is logged is printed, as in a command."""
    root = logging.getLogger("tfaip")
    before = (root.level, root.propagate, list(root.handlers))
    setup_console()
    yield
    root.level, root.propagate, root.handlers = before
