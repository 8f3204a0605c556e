"""The model that the tests load."""

import logging
from collections.abc import Iterator

import pytest

from test.support.trained import tutorial as tutorial
from tfaip.util.logging import setup_console


@pytest.fixture
def console() -> Iterator[None]:
    """What is logged is printed, as in a command."""
    root = logging.getLogger("tfaip")
    before = (root.level, root.propagate, list(root.handlers))
    setup_console()
    yield
    root.level, root.propagate, root.handlers = before
