"""Commands in the test process."""

from test.scripts.conftest import run

__all__ = ["run"]
