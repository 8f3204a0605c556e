"""The model that the tests load."""

from __future__ import annotations

from pathlib import Path

import pytest

from test.support.trained import trained_tutorial


@pytest.fixture(scope="session")
def tutorial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the tutorial, trained on this backend; not to be changed."""
    return trained_tutorial(tmp_path_factory)
